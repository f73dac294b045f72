"""How a peer of `whisper bench` talks: JSON, one object a line, on standard input and output.

It says what it is once its model is loaded; then, for every line that comes in, it transcribes and says the
text, the seconds that took, and the most memory that the process ever held. It ends when its input does.
"""

import json
import os
import sys
import time

# Only answers go to stdout, whatever the libraries print.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def answer(**fields):
    print(json.dumps(fields), file=answers, flush=True)


def peak_bytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) * 1024


def serve(transcribe, version, runs_on):
    """Answers until the input ends. `runs_on`: what the bench checks, so that no row is misnamed."""
    answer(version=version, runsOn=runs_on)
    for _ in sys.stdin:
        started = time.perf_counter()
        text = transcribe()
        seconds = time.perf_counter() - started
        answer(text=text.strip(), seconds=seconds, peakBytes=peak_bytes())
