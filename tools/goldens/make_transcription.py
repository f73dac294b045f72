"""Greedy transcriptions of real speech by a real Whisper checkpoint, fp32 on the CPU.

    python make_transcription.py OUTDIR --model HF_DIR --wav jfk.wav

Writes real_whisper_base.json: for each mode (no_timestamps, timestamps, words) the ids, the text and
what the mode adds; probes of the encoder, the first logits, the language and silence.
"""

import argparse
import hashlib
import json
import os
import wave

from golden_file import VERSIONS

import numpy as np
import torch
import transformers

CASES = [dict(name='jfk_full', modes=['no_timestamps', 'timestamps', 'words'])]
NOTES = (
    'x = int16/32768 of the wav cut to [start, end) seconds, preceded by pad seconds of zeros, '
    'repeated. transformers generate, greedy; suppress lists of generation_config/config apply; '
    'token_timestamps from DTW over the alignment heads, seconds, END of each token; words = '
    '[text, start, end] grouped at leading spaces, without OpenAI clean-up (punctuation belongs to '
    'the word).'
)

# Ids of the multilingual vocabulary.
END_OF_TEXT = 50257
START_OF_TRANSCRIPT = 50258
FIRST_LANGUAGE, LAST_LANGUAGE = 50259, 50357
NO_SPEECH = 50362
FIRST_TIMESTAMP = 50364  # <|0.00|>
PROMPT = [START_OF_TRANSCRIPT, 50259, 50359, 50363]  # en, transcribe, no timestamps


def read_wav(path):
    with wave.open(path) as file:
        assert file.getframerate() == 16000 and file.getnchannels() == 1
        pcm = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    return pcm.astype(np.float32) / 32768


def transcribe(model, tokenizer, features, mode):
    with_timestamps = mode != 'no_timestamps'
    arguments = dict(return_timestamps=with_timestamps)
    if mode == 'words':
        arguments['return_token_timestamps'] = True
    output = model.generate(
        features, language='en', task='transcribe', num_beams=1, do_sample=False, temperature=0.0,
        **arguments,
    )
    ids = (output['sequences'] if isinstance(output, dict) else output)[0].tolist()
    result = dict(ids=ids, text=tokenizer.decode(ids, skip_special_tokens=True))
    if with_timestamps:
        result['text_timestamps'] = text_with_timestamps(tokenizer, ids)
    if mode == 'words':
        times = [round(time, 2) for time in output['token_timestamps'][0].tolist()][-len(ids) :]
        result['token_timestamps'] = times
        result['words'] = group_words(tokenizer, ids, times)
    return result


def text_with_timestamps(tokenizer, ids):
    """Tokens decoded one by one, between timestamps such as <|1.50|>."""
    parts = []
    for token in ids:
        if token >= FIRST_TIMESTAMP:
            parts.append(f'<|{(token - FIRST_TIMESTAMP) * 0.02:.2f}|>')
        elif token < END_OF_TEXT:
            parts.append(tokenizer.decode([token]))
    return ''.join(parts)


def group_words(tokenizer, ids, ends):
    """[text, start, end] of each word; `ends[i]` is where token i ends, and token i + 1 starts."""
    words = []
    for i, token in enumerate(ids):
        if token >= END_OF_TEXT:
            continue
        piece = tokenizer.decode([token])
        start = ends[i - 1] if i else 0.0
        if piece.startswith(' ') or not words:
            words.append([piece, start, ends[i]])
        else:
            words[-1][0] += piece
            words[-1][2] = ends[i]
    return words


def probes(model, features):
    logits = model(input_features=features, decoder_input_ids=torch.tensor([PROMPT])).logits[0, -1]
    top = logits.topk(5)
    start = torch.tensor([[START_OF_TRANSCRIPT]])
    first = model(input_features=features, decoder_input_ids=start).logits[0, 0]
    languages = first[FIRST_LANGUAGE : LAST_LANGUAGE + 1]
    encoded = model.model.encoder(features).last_hidden_state
    return dict(
        top5_first_no_timestamps=[
            dict(id=int(token), logit=round(float(logit), 4))
            for logit, token in zip(top.values, top.indices)
        ],
        language=dict(
            id=FIRST_LANGUAGE + int(languages.argmax()),
            prob=round(float(languages.softmax(-1).max()), 5),
        ),
        no_speech_prob=float(first.softmax(-1)[NO_SPEECH]),
        encoder_probe=dict(
            mean=float(encoded.mean()), row100=[round(float(x), 5) for x in encoded[0, 100, :8]]
        ),
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('outdir')
    parser.add_argument('--model', required=True, help="folder with Hugging Face's files")
    parser.add_argument('--wav', required=True)
    arguments = parser.parse_args()

    audio = read_wav(arguments.wav)
    assert len(audio) <= 30 * 16000, 'longer than one window'
    model = transformers.WhisperForConditionalGeneration.from_pretrained(
        arguments.model, dtype=torch.float32, attn_implementation='eager'
    ).eval()
    extractor = transformers.WhisperFeatureExtractor.from_pretrained(arguments.model)
    tokenizer = transformers.WhisperTokenizerFast.from_pretrained(arguments.model)
    features = extractor(audio, sampling_rate=16000, return_tensors='pt').input_features

    results = []
    for case in CASES:
        digest = hashlib.sha256(audio.astype('<f4').tobytes()).hexdigest()
        result = dict(case=case, samples=len(audio), samples_sha256=digest)
        for mode in case['modes']:
            result[mode] = transcribe(model, tokenizer, features, mode)
            print(case['name'], mode, repr(result[mode]['text'][:100]), flush=True)
        results.append(result | probes(model, features))

    with open(arguments.wav, 'rb') as file:
        wav_sha256 = hashlib.sha256(file.read()).hexdigest()
    golden = dict(
        model='whisper-base', wav_sha256=wav_sha256, notes=NOTES, cases=results, source=VERSIONS
    )
    with open(os.path.join(arguments.outdir, 'real_whisper_base.json'), 'w') as file:
        json.dump(golden, file, ensure_ascii=False, indent=1)


if __name__ == '__main__':
    main()
