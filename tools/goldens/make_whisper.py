"""Tiny Whisper models with reference outputs, and goldens of the decoding rules.

    python make_whisper.py OUTDIR [--only NAME]

kind model (transformers WhisperForConditionalGeneration, random weights):
  wav [B, N] at 16 kHz, zero padded; wav_len [B]
  mel80, mel128 [B, bands, frames]: WhisperFeatureExtractor with a chunk of 2 * n_audio_ctx / 100 s;
    the model's input is the one whose bands equal num_mel_bins
  encoder_out [B, ctx, d]
  prompt_ids [B, P]; prompt_logits [B, P, V]
  cross_attn_qk [B, heads, P, ctx]: scaled scores of decoder layer `cross_attn_layer`;
    cross_attn: the same after the softmax
  greedy20 [B, 20]: plain argmax after the prompt, nothing suppressed, no stop
  greedy20_suppressed [B, 20]: suppress_tokens everywhere, begin_suppress_tokens at the first step
  *_margin [B, 20]: best minus second logit at each step
kind dtw: matrix [tokens, frames]; median7 (width 7, reflect padding); text_indices, time_indices:
  the dynamic-time-warping path of -median7
kind rules (WhisperTimeStampLogitsProcessor on hand-made sequences): ids [N, L] padded with -1;
  ids_len [N]; scores [N, V]; masked [N, V], 1 where the rules set -inf
"""

import numpy as np
import torch
import transformers
from transformers.models.whisper import generation_whisper

from golden_file import margin, save_golden, write_all
from random_data import fill_weights, randn, speech

SPECIAL = dict(suppress=[1, 2, 7, 8, 33, 90], begin_suppress=[20, 49])
VARIANTS = [
    dict(
        name='tiny_whisper_80', kind='model', seed=31, samples=53921, prompt=[50, 51, 55, 59],
        layer=1, **SPECIAL,
        config=dict(
            vocab_size=120, num_mel_bins=80, d_model=32, encoder_layers=2, decoder_layers=2,
            encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=64,
            decoder_ffn_dim=64, max_source_positions=1500, max_target_positions=64,
        ),
    ),
    dict(
        name='tiny_whisper_128_ctx200', kind='model', seed=36, samples=53921,
        prompt=[50, 51, 55, 59, 12, 17], layer=0, **SPECIAL,
        config=dict(
            vocab_size=120, num_mel_bins=128, d_model=48, encoder_layers=3, decoder_layers=2,
            encoder_attention_heads=3, decoder_attention_heads=3, encoder_ffn_dim=96,
            decoder_ffn_dim=96, max_source_positions=200, max_target_positions=64,
        ),
    ),
    dict(name='whisper_dtw', kind='dtw', seed=33, tokens=9, frames=60),
    dict(
        name='whisper_timestamp_rules', kind='rules', seed=34, vocab=120, eos=49, no_timestamps=59,
        begin=3, max_initial=10,
        sequences=[
            [50, 51, 55],
            [50, 51, 55, 60],
            [50, 51, 55, 60, 5],
            [50, 51, 55, 60, 5, 70],
            [50, 51, 55, 60, 5, 70, 70],
            [50, 51, 55, 60, 5, 70, 70, 9],
            [50, 51, 55, 60, 5, 70, 70, 9, 88],
            [50, 51, 55, 62, 62],
            [50, 51, 55, 60, 1, 2, 3, 119],
        ],
    ),
]

# Widths under which the outputs depend visibly on every part: audio, positions and both attentions.
WEIGHT_SCALES = [
    ('decoder.embed_tokens', 1.0),
    ('decoder.embed_positions', 12.0),
    ('encoder_attn.q_proj', 2.5),
    ('encoder_attn.k_proj', 2.5),
    ('out_proj', 2.0),
    ('decoder.layers.0.fc', 2.0),
    ('decoder.layers.1.fc', 2.0),
    ('conv', 0.6),
]


def make_model(variant, path):
    config = transformers.WhisperConfig(
        **variant['config'], bos_token_id=49, eos_token_id=49, pad_token_id=49,
        decoder_start_token_id=50, suppress_tokens=None, begin_suppress_tokens=None,
    )
    model = transformers.WhisperForConditionalGeneration._from_config(
        config, attn_implementation='eager'
    )
    model = model.eval().float()
    skip = ('encoder.embed_positions',)  # sinusoids
    fill_weights(model, variant['seed'], 0.15, WEIGHT_SCALES, skip)
    model.model.decoder.layer_norm.bias.data.zero_()

    audio = speech(variant['samples'], variant['seed'] + 1000)
    tensors = dict(wav=torch.from_numpy(audio)[None], wav_len=torch.tensor([len(audio)]))
    tensors |= mel_spectrograms(config, audio)
    mel = log_mel(config.num_mel_bins, audio, config.max_source_positions)
    tensors['encoder_out'] = model.model.encoder(mel).last_hidden_state
    prompt = torch.tensor([variant['prompt']])
    tensors |= forward_prompt(model, mel, prompt, variant['layer'])
    for name, suppress in (('greedy20', False), ('greedy20_suppressed', True)):
        ids, margins = greedy(model, tensors['encoder_out'], prompt, variant if suppress else None)
        tensors |= {name: ids, name + '_margin': margins}
        print(f'   {name} {ids.tolist()} smallest margin {margins.min():.4f}')
    tensors['suppress_tokens'] = torch.tensor(variant['suppress'])
    tensors['begin_suppress_tokens'] = torch.tensor(variant['begin_suppress'])
    save_golden(
        path, tensors, model=model, config=config, tied=('proj_out.weight',),
        source='WhisperForConditionalGeneration + WhisperFeatureExtractor, '
        f'seed {variant["seed"]}',
        notes='proj_out tied to decoder.embed_tokens, absent. Special ids are remapped to fit the '
        'small vocabulary. The mel of the band count that the model does not use is cut after the '
        'audio (the rest is a constant floor, value = last column) when n_audio_ctx is 1500.',
    )


def log_mel(bands, audio, context):
    """[1, bands, 2 * context]; the audio is padded or cut to 2 * context frames of 10 ms."""
    extractor = transformers.WhisperFeatureExtractor(
        feature_size=bands, chunk_length=2 * context // 100
    )
    features = extractor([audio], sampling_rate=16000, return_tensors='pt').input_features
    assert features.shape[-1] == 2 * context, features.shape
    return features


def mel_spectrograms(config, audio):
    tensors = {}
    for bands in (80, 128):
        mel = log_mel(bands, audio, config.max_source_positions)
        if config.max_source_positions >= 1500 and bands != config.num_mel_bins:
            # Keeps the file small: nothing but a constant floor follows the audio.
            kept = len(audio) // 160 + 4
            assert (mel[..., kept:] == mel[..., -1:, -1:]).all()
            mel = mel[..., :kept]
        tensors[f'mel{bands}'] = mel
    return tensors


def forward_prompt(model, mel, prompt, layer):
    """Logits of the prompt, and one layer's cross-attention before and after its softmax."""
    attention = model.model.decoder.layers[layer].encoder_attn
    projected = {}
    hooks = [
        getattr(attention, part).register_forward_hook(
            lambda _module, _inputs, output, part=part: projected.__setitem__(part, output)
        )
        for part in ('q_proj', 'k_proj')
    ]
    output = model(
        input_features=mel, decoder_input_ids=prompt, output_attentions=True, use_cache=False
    )
    for hook in hooks:
        hook.remove()

    heads = model.config.decoder_attention_heads
    width = model.config.d_model // heads
    queries, keys = (
        projected[part].view(1, -1, heads, width).transpose(1, 2) for part in ('q_proj', 'k_proj')
    )
    scores = queries @ keys.transpose(2, 3) * width**-0.5
    weights = output.cross_attentions[layer]
    assert torch.allclose(scores.softmax(-1), weights, atol=1e-5)
    print(f'   attention peak {weights.max():.3f}, logits std {output.logits.std():.2f}')
    return dict(
        prompt_ids=prompt, prompt_logits=output.logits, cross_attn=weights, cross_attn_qk=scores,
        cross_attn_layer=torch.tensor(layer),
    )


def greedy(model, encoder_out, prompt, suppressed, steps=20):
    """`suppressed` (a variant, or None) has the ids that are never, and never first, sampled."""
    ids, margins = prompt, []
    for step in range(steps):
        output = model(encoder_outputs=(encoder_out,), decoder_input_ids=ids, use_cache=False)
        logits = output.logits[:, -1].clone()
        if suppressed:
            logits[:, suppressed['suppress']] = -1e9
            if step == 0:
                logits[:, suppressed['begin_suppress']] = -1e9
        margins.append(margin(logits))
        ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], 1)
    return ids[:, prompt.shape[1] :], torch.stack(margins, 1)


def make_dtw(variant, path):
    tokens, frames = variant['tokens'], variant['frames']
    column = torch.arange(frames)[None] / frames
    row = (torch.arange(tokens)[:, None] + 0.5) / tokens
    ridge = 3 * torch.exp(-(((column - row) * tokens) ** 2))
    matrix = randn((tokens, frames), variant['seed']) + ridge
    median = generation_whisper._median_filter(matrix[None, None], 7)[0, 0]
    path_indices = generation_whisper._dynamic_time_warping(-median.double().numpy())
    text, time = (torch.tensor(np.ascontiguousarray(indices)) for indices in path_indices)
    save_golden(
        path, dict(matrix=matrix, median7=median, text_indices=text, time_indices=time),
        source=f'transformers _median_filter/_dynamic_time_warping, seed {variant["seed"]}',
        notes='median filter along frames, width 7, reflect padding; DTW path on -median7. The path '
        'is the index pair list; a token starts at the first frame of its row.',
    )


def make_rules(variant, path):
    processor = transformers.WhisperTimeStampLogitsProcessor(
        transformers.GenerationConfig(
            eos_token_id=variant['eos'], bos_token_id=variant['eos'],
            no_timestamps_token_id=variant['no_timestamps'],
            max_initial_timestamp_index=variant['max_initial'],
        ),
        begin_index=variant['begin'],
    )
    # Every sequence twice: with plain scores, and with scores that make timestamps likely.
    sequences = variant['sequences'] * 2
    scores = randn((len(sequences), variant['vocab']), variant['seed'], 2.0)
    scores[len(sequences) // 2 :, variant['no_timestamps'] + 1 :] += 3.0
    ids = torch.full((len(sequences), max(map(len, sequences))), -1)
    masked = []
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = torch.tensor(sequence)
        processed = processor(torch.tensor([sequence]), scores[row : row + 1].clone())
        masked.append(torch.isinf(processed[0]))
    tensors = dict(
        ids=ids, ids_len=torch.tensor([len(sequence) for sequence in sequences]), scores=scores,
        masked=torch.stack(masked), eos=torch.tensor(variant['eos']),
        no_timestamps=torch.tensor(variant['no_timestamps']),
        begin_index=torch.tensor(variant['begin']), max_initial=torch.tensor(variant['max_initial']),
    )
    save_golden(
        path, tensors, source=f'transformers WhisperTimeStampLogitsProcessor, seed {variant["seed"]}',
        notes='timestamps are the ids above no_timestamps; sampling starts at begin_index; the '
        'second half of the rows favours timestamps.',
    )


if __name__ == '__main__':
    makers = dict(model=make_model, dtw=make_dtw, rules=make_rules)
    write_all(VARIANTS, lambda variant, path: makers[variant['kind']](variant, path))
