"""Small checkpoints as torch.save writes them, for the reader in packages/nn.

    python make_pytorch.py OUTDIR

pytorch_dtypes.pt: a dict with a tensor of each dtype, views of one storage, nested plain data
pytorch_module.pt: the state_dict of a module, and a Parameter
pytorch_other.pt: an object of a class that is neither a tensor nor plain data
"""

import argparse
import os
from collections import OrderedDict

import torch

DTYPES = ['float64', 'float32', 'float16', 'bfloat16', 'int64', 'int32', 'int16', 'int8', 'uint8', 'bool', 'complex64']


class Other:
    pass


def checkpoints():
    grid = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    yield 'dtypes', {
        **{name: torch.tensor([0, 1, 2.5]).to(getattr(torch, name)) for name in DTYPES},
        'grid': grid,
        'transposed': grid.T,
        'column': grid[:, 1],
        'corner': grid[1:, 2:],
        'scalar': torch.tensor(7.5),
        'empty': torch.zeros(0, 3),
        'model_args': {
            'dim': 64, 'large': 1 << 40, 'huge': 1 << 80, 'negative': -3, 'eps': 1e-5, 'tied': True, 'none': None,
            'name': 'tiny ☃', 'list': [1, 2, [3]], 'tuple': (1, 2, 3, 4), 5: 'five',
        },
    }
    yield 'module', {
        'model': torch.nn.Linear(2, 3).state_dict(),
        'parameter': torch.nn.Parameter(torch.ones(2)),
        'ordered': OrderedDict(a=1, b=2),
    }
    yield 'other', {'model': Other()}


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('outdir')
    outdir = parser.parse_args().outdir
    os.makedirs(outdir, exist_ok=True)
    torch.manual_seed(7)
    for name, value in checkpoints():
        torch.save(value, os.path.join(outdir, f'pytorch_{name}.pt'))
