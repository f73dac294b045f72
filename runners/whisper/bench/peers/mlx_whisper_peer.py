"""mlx-whisper for `whisper bench`: loads once, then transcribes each time it is asked to.

    python mlx_whisper_peer.py MODEL_FOLDER SAMPLES LANGUAGE

MODEL_FOLDER holds weights.safetensors and config.json in MLX's layout, SAMPLES mono float32 samples at
16 kHz. Speaks JSON, one object a line: says what it is once it is ready; then, for every line that
comes in, transcribes the samples and says the text, the seconds that took, and the most memory that
the process ever held. Ends when its input does.
"""

import json
import os
import sys
import time
from importlib.metadata import version

# Only answers go to stdout, whatever the libraries print.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import mlx.core as mx  # noqa: E402
import numpy as np  # noqa: E402
from mlx_whisper.transcribe import ModelHolder, transcribe  # noqa: E402


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


def main(model_folder, samples_file, language):
    samples = mx.array(np.fromfile(samples_file, dtype=np.float32))
    mx.eval(samples)
    ModelHolder.get_model(model_folder, mx.float32)
    answer(version=version("mlx-whisper"), blas=blas_library())
    for _ in sys.stdin:
        started = time.perf_counter()
        result = transcribe(
            samples,
            path_or_hf_repo=model_folder,
            language=language,
            temperature=0.0,
            fp16=False,
            word_timestamps=False,
        )
        seconds = time.perf_counter() - started
        answer(text=result["text"].strip(), seconds=seconds, peakBytes=peak_bytes())


main(*sys.argv[1:])
