"""Seeded weights and speech-like audio: equal seeds give equal goldens on every machine."""

import numpy as np
import torch


def generator(seed):
    return torch.Generator().manual_seed(seed)


def randn(shape, seed, scale=1.0):
    return torch.randn(*shape, generator=generator(seed)) * scale


def fill_weights(model, seed, std, scale=(), skip=()):
    """Fills a model with normal weights, in the order of named_parameters().

    1-D weights are twice as wide; norm weights are centred on 1. `scale` lists (substring, factor),
    of which the first that matches a name multiplies its weights. Names that contain a substring in
    `skip` stay as they are.
    """
    numbers = generator(seed)
    for name, parameter in model.named_parameters():
        if any(part in name for part in skip):
            continue
        weights = torch.randn(parameter.shape, generator=numbers) * std
        if parameter.dim() == 1:
            weights = weights * 2
        if 'norm' in name and name.endswith('weight'):
            weights = weights + 1.0
        for part, factor in scale:
            if part in name:
                weights = weights * factor
                break
        parameter.data.copy_(weights)


def speech(length, seed, sample_rate=16000):
    """`length` float32 samples that resemble speech: five gated chirps with harmonics, plus noise."""
    random = np.random.default_rng(seed)
    time = np.arange(length) / sample_rate
    duration = length / sample_rate
    audio = np.zeros(length)
    for _ in range(5):
        start, end = random.uniform(90, 900), random.uniform(90, 3500)
        phase = 2 * np.pi * (start * time + (end - start) * time * time / (2 * duration))
        phase = phase + random.uniform(0, 6.28)
        gate_rate, gate_phase = random.uniform(0.4, 3.0), random.uniform(0, 6.28)
        gate = 0.5 + 0.5 * np.sin(2 * np.pi * gate_rate * time + gate_phase)
        harmonics = np.sin(phase) + 0.5 * np.sin(2 * phase) + 0.25 * np.sin(3 * phase)
        audio += random.uniform(0.05, 0.25) * gate * harmonics
    audio += 0.01 * random.standard_normal(length)
    audio *= 0.8 / np.abs(audio).max()
    return audio.astype(np.float32)
