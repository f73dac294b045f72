"""What the reference tokenizer makes of 30 awkward strings (tokenizer_strings.json).

    python make_tokenizer.py OUTDIR NAME=tokenizer.json NAME=model.gguf ...

Writes tokenizer_NAME.json. Each case: text; ids without and ids_special with the special tokens that
the tokenizer adds; decoded and decoded_skip: `ids` with special tokens shown and skipped. A tokenizer.json
is read by the tokenizers library as it stands, without what transformers overrides; the vocabulary of a
GGUF file is converted by transformers.
"""

import argparse
import json
import os
import pathlib

from golden_file import VERSIONS

import tokenizers
import transformers

STRINGS = pathlib.Path(__file__).with_name('tokenizer_strings.json')


def load(path):
    """The tokenizer, and where it comes from."""
    if not path.endswith('.gguf'):
        return tokenizers.Tokenizer.from_file(path), 'tokenizer.json'
    folder, name = os.path.split(path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=name)
    return tokenizer._tokenizer, 'GGUF vocabulary converted by transformers'


def case(tokenizer, text):
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    return dict(
        text=text,
        ids=ids,
        ids_special=tokenizer.encode(text, add_special_tokens=True).ids,
        decoded=tokenizer.decode(ids, skip_special_tokens=False),
        decoded_skip=tokenizer.decode(ids, skip_special_tokens=True),
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('outdir')
    parser.add_argument('tokenizers', nargs='+', metavar='NAME=FILE')
    arguments = parser.parse_args()
    texts = json.loads(STRINGS.read_text(encoding='utf8'))
    for item in arguments.tokenizers:
        name, path = item.split('=', 1)
        tokenizer, origin = load(path)
        cases = [case(tokenizer, text) for text in texts]
        golden = dict(
            tokenizer=name, origin=origin,
            source=f'tokenizers {tokenizers.__version__}, {VERSIONS}', cases=cases,
        )
        output = os.path.join(arguments.outdir, f'tokenizer_{name}.json')
        with open(output, 'w', encoding='utf8') as file:
            json.dump(golden, file, ensure_ascii=False, indent=0)
        exact = sum(entry['decoded'] == entry['text'] for entry in cases)
        print(f'{output}: {exact} of {len(cases)} texts survive a round trip')


if __name__ == '__main__':
    main()
