"""Writes golden files: reference tensors, with weights under `w.<checkpoint name>` and the metadata
`config` (the model's config.json), `source` (what computed it, versions, seed) and `notes`."""

import argparse
import json
import os
import time
import warnings

os.environ.setdefault('TRANSFORMERS_VERBOSITY', 'error')
os.environ.setdefault('HF_HUB_OFFLINE', '1')
warnings.filterwarnings('ignore')

import numpy as np
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file

VERSIONS = (
    f'transformers {transformers.__version__}, torch {torch.__version__}, numpy {np.__version__}'
)
MAX_BYTES = 3_000_000  # they live in the repository

# The order of floating-point sums depends on the number of threads.
torch.set_num_threads(2)
torch.set_grad_enabled(False)


def margin(logits):
    """Gap between the best and the second logit, over the last axis."""
    best = logits.float().topk(2, -1).values
    return best[..., 0] - best[..., 1]


def save_golden(path, tensors, *, source, notes, model=None, config=None, tied=(), extra=None):
    """Writes one golden and reads it back. `tied` names weights to leave out as copies of others,
    `extra` is more metadata."""
    stored = {}
    if model is not None:
        for name, weight in model.state_dict().items():
            if name not in tied:
                stored['w.' + name] = weight.detach().contiguous().clone()
    for name, tensor in tensors.items():
        stored[name] = storable(name, tensor)

    metadata = {'source': f'{source}; {VERSIONS}', 'notes': notes}
    if config is not None:
        metadata['config'] = json.dumps(config.to_dict(), default=str)
    metadata.update(extra or {})
    save_file(stored, path, metadata=metadata)
    check_saved(path, stored, metadata)

    shapes = ' '.join(f'{name}{list(stored[name].shape)}' for name in tensors)
    print(f'{os.path.basename(path):40s} {os.path.getsize(path):8d}  {shapes}', flush=True)


def storable(name, tensor):
    tensor = torch.as_tensor(tensor).detach().contiguous().clone()
    if tensor.dtype == torch.float64:
        tensor = tensor.float()
    if tensor.dtype == torch.bool:
        tensor = tensor.to(torch.int32)
    if tensor.is_floating_point():
        assert torch.isfinite(tensor).all(), name
    return tensor


def check_saved(path, stored, metadata):
    assert os.path.getsize(path) <= MAX_BYTES, path
    with safe_open(path, 'pt') as file:
        assert file.metadata() == metadata
        assert set(file.keys()) == set(stored)
        for name, tensor in stored.items():
            assert torch.equal(file.get_tensor(name), tensor), name


def write_all(variants, make):
    """Command line of a writer: `make(variant, path)` for each variant, or those named by --only."""
    parser = argparse.ArgumentParser()
    parser.add_argument('outdir')
    parser.add_argument('--only', default='', help='variants whose name contains this')
    arguments = parser.parse_args()
    os.makedirs(arguments.outdir, exist_ok=True)
    for variant in variants:
        name = variant['name']
        if arguments.only in name:
            started = time.time()
            torch.manual_seed(variant['seed'])
            make(variant, os.path.join(arguments.outdir, name + '.safetensors'))
            print(f'   {name}: {time.time() - started:.1f} s', flush=True)
