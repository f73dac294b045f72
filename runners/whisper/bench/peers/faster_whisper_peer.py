"""faster-whisper for `whisper bench`: loads once, then transcribes each time it is asked to.

    python faster_whisper_peer.py MODEL_FOLDER SAMPLES LANGUAGE COMPUTE_TYPE THREADS

MODEL_FOLDER holds a model of CTranslate2, SAMPLES mono float32 samples at 16 kHz. peer.py says how the
two talk.
"""

import sys
from importlib.metadata import version

import numpy as np
from faster_whisper import WhisperModel
from peer import serve


def main(model_folder, samples_file, language, compute_type, threads):
    samples = np.fromfile(samples_file, dtype=np.float32)
    model = WhisperModel(
        model_folder, device="cpu", compute_type=compute_type, cpu_threads=int(threads)
    )

    def transcribe():
        segments, _ = model.transcribe(samples, language=language, beam_size=1, temperature=0.0)
        return "".join(segment.text for segment in segments)

    serve(
        transcribe,
        version=version("faster-whisper"),
        runs_on=model.model.compute_type,
    )


main(*sys.argv[1:])
