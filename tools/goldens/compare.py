"""Compares freshly made goldens with the committed ones: largest error relative to the range.

    python compare.py OUTDIR ../../packages/test-fixtures/goldens
"""

import pathlib
import sys

from safetensors.torch import load_file

made, committed = map(pathlib.Path, sys.argv[1:])
for path in sorted(made.glob('*.safetensors')):
    tensors, expected = load_file(path), load_file(committed / path.name)
    assert tensors.keys() == expected.keys(), tensors.keys() ^ expected.keys()
    worst, different = 0.0, []
    for name, reference in expected.items():
        assert tensors[name].shape == reference.shape, name
        if reference.is_floating_point() and reference.numel():
            span = float(reference.max() - reference.min()) or 1.0
            worst = max(worst, float((tensors[name] - reference).abs().max()) / span)
        elif not tensors[name].equal(reference):
            different.append(name)
    print(f'{path.name:40s} largest error {worst:.1e}, other integers: {different or "none"}')
