"""mlx-whisper for `whisper bench`: loads once, then transcribes each time it is asked to.

    python mlx_whisper_peer.py MODEL_FOLDER SAMPLES LANGUAGE

MODEL_FOLDER holds weights.safetensors and config.json in MLX's layout, SAMPLES mono float32 samples at
16 kHz. peer.py says how the two talk.
"""

import sys
from importlib.metadata import version

import mlx.core as mx
import numpy as np
from mlx_whisper.transcribe import ModelHolder, transcribe
from peer import serve


def blas_library():
    """Path of the library that MLX takes its matrix products from."""
    with open("/proc/self/maps") as maps:
        paths = {line.split()[-1] for line in maps if "/libblas" in line}
    return ", ".join(sorted(paths))


def main(model_folder, samples_file, language):
    samples = mx.array(np.fromfile(samples_file, dtype=np.float32))
    mx.eval(samples)
    ModelHolder.get_model(model_folder, mx.float32)
    serve(
        lambda: transcribe(
            samples,
            path_or_hf_repo=model_folder,
            language=language,
            temperature=0.0,
            fp16=False,
            word_timestamps=False,
        )["text"],
        version=version("mlx-whisper"),
        runs_on=blas_library(),
    )


main(*sys.argv[1:])
