"""What the reference tokenizer makes of 30 awkward strings (tokenizer_strings.json).

    python make_tokenizer.py OUTDIR NAME=tokenizer.json ...

Writes tokenizer_NAME.json. Each case: text; ids without and ids_special with the special tokens that
the tokenizer adds; decoded and decoded_skip: `ids` with special tokens shown and skipped. The file
is read by the tokenizers library as it stands, without what transformers overrides.
"""

import argparse
import json
import os
import pathlib

from golden_file import VERSIONS

import tokenizers

STRINGS = pathlib.Path(__file__).with_name('tokenizer_strings.json')


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
    parser.add_argument('tokenizers', nargs='+', metavar='NAME=tokenizer.json')
    arguments = parser.parse_args()
    texts = json.loads(STRINGS.read_text(encoding='utf8'))
    for item in arguments.tokenizers:
        name, path = item.split('=', 1)
        tokenizer = tokenizers.Tokenizer.from_file(path)
        cases = [case(tokenizer, text) for text in texts]
        golden = dict(
            tokenizer=name, origin='tokenizer.json',
            source=f'tokenizers {tokenizers.__version__}, {VERSIONS}', cases=cases,
        )
        output = os.path.join(arguments.outdir, f'tokenizer_{name}.json')
        with open(output, 'w', encoding='utf8') as file:
            json.dump(golden, file, ensure_ascii=False, indent=0)
        exact = sum(entry['decoded'] == entry['text'] for entry in cases)
        print(f'{output}: {exact} of {len(cases)} texts survive a round trip')


if __name__ == '__main__':
    main()
