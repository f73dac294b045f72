"""mlx-lm for `llm bench`: loads once, then continues token ids each time it is asked to.

    python mlx_lm_peer.py MODEL_FOLDER

It talks as every contestant does, in JSON, one object a line: it says what it is once its model is loaded; then,
for every {"ids": [...], "maxTokens": n} that comes in, it draws n tokens greedily and says them, the seconds until
the first and until the last of them, and the most memory that the process ever held. It ends when its input does.
"""

import json
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path

# Only answers go to stdout, whatever the libraries print.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import mlx.core as mx
from mlx_lm.generate import generate_step
from mlx_lm.utils import load_model


def answer(**fields):
    print(json.dumps(fields), file=answers, flush=True)


def blas_library():
    """Path of the library that MLX takes its matrix products from."""
    with open("/proc/self/maps") as maps:
        paths = {line.split()[-1] for line in maps if "/libblas" in line}
    return ", ".join(sorted(paths))


def peak_bytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) * 1024


def main(folder):
    started = time.perf_counter()
    model, _ = load_model(Path(folder))
    load_seconds = time.perf_counter() - started
    answer(version=version("mlx-lm"), runsOn=blas_library(), loadSeconds=load_seconds)
    for line in sys.stdin:
        request = json.loads(line)
        drawn = []
        started = time.perf_counter()
        first_seconds = 0
        # A fresh cache for each text.
        for token, _ in generate_step(
            mx.array(request["ids"]), model, max_tokens=request["maxTokens"]
        ):
            if not drawn:
                first_seconds = time.perf_counter() - started
            drawn.append(int(token))
        seconds = time.perf_counter() - started
        answer(
            ids=drawn, firstSeconds=first_seconds, seconds=seconds, peakBytes=peak_bytes()
        )


main(*sys.argv[1:])
