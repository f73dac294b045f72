"""Front ends: one speech-like recording (3.37 s, an odd number of samples) with the reference
features of every model family, and resampling references.

    python make_features.py OUTDIR

wav [N] at 16 kHz
whisper80, whisper128 [bands, frames]: log-mel of the recording padded to 30 s, cut after the audio;
  the rest is constant, whisper*_floor
parakeet [T, 128] and parakeet_mask: normalised per feature
nemotron [T, 128] and nemotron_mask: the same front end without normalisation
voxtral_realtime [128, T]: fixed maximum 1.5, centred frames;
  voxtral_realtime_stream [128, T2]: the same samples with center=False
mel_filters_80, mel_filters_128 [201, bands], mel_filters_257x128 [257, 128]: computed in float64
chirp_<rate> [n]: what to16k_soxr_<rate> (soxr HQ) and to16k_poly_<rate> (scipy resample_poly with
  its default Kaiser 5.0 window) were resampled from
"""

import importlib.metadata
from math import gcd

import numpy as np
import scipy
import scipy.signal
import soxr
import torch
import transformers
from transformers.audio_utils import mel_filter_bank

from golden_file import save_golden, write_all
from random_data import speech

VARIANTS = [
    dict(name='features', seed=81, samples=53921, chirp_rates=[44100, 48000, 8000], duration=0.5)
]


def make(variant, path):
    audio = speech(variant['samples'], variant['seed'])
    tensors = dict(wav=audio)
    tensors |= whisper_features(audio)
    tensors['mel_filters_257x128'] = mel_filters(257, 128)
    tensors |= fastconformer_features(audio)
    tensors |= voxtral_realtime_features(audio)
    tensors |= resampled_chirps(variant)
    save_golden(
        path, tensors,
        source=f'transformers feature extractors, soxr {importlib.metadata.version("soxr")}, '
        f'scipy {scipy.__version__}, seed {variant["seed"]}',
        notes='Nothing here has weights. Low-energy log-mel bins depend on FFT rounding: compare '
        'nemotron with atol 1e-2, the others with 1e-3.',
    )


def mel_filters(bins, bands):
    """[bins, bands], Slaney's scale and normalisation, 0 to 8000 Hz at 16 kHz."""
    filters = mel_filter_bank(bins, bands, 0.0, 8000.0, 16000, norm='slaney', mel_scale='slaney')
    return torch.from_numpy(filters)


def whisper_features(audio):
    kept = len(audio) // 160 + 4
    tensors = {}
    for bands in (80, 128):
        extractor = transformers.WhisperFeatureExtractor(feature_size=bands)
        mel = extractor(audio, sampling_rate=16000, return_tensors='pt').input_features[0]
        floor = mel[0, -1]
        assert (mel[:, kept:] == floor).all()
        tensors[f'whisper{bands}'] = mel[:, :kept]
        tensors[f'whisper{bands}_floor'] = floor
        tensors[f'mel_filters_{bands}'] = mel_filters(201, bands)
    return tensors


def fastconformer_features(audio):
    extractors = dict(
        parakeet=transformers.ParakeetFeatureExtractor,
        nemotron=transformers.NemotronAsrStreamingFeatureExtractor,
    )
    tensors = {}
    for name, extractor in extractors.items():
        features = extractor(feature_size=128)([audio], sampling_rate=16000, return_tensors='pt')
        tensors[name] = features.input_features[0]
        tensors[name + '_mask'] = features.attention_mask[0]
    return tensors


def voxtral_realtime_features(audio):
    extractor = transformers.VoxtralRealtimeFeatureExtractor()
    arguments = dict(sampling_rate=16000, return_tensors='pt')
    return dict(
        voxtral_realtime=extractor(audio, **arguments).input_features[0],
        voxtral_realtime_stream=extractor(audio, center=False, **arguments).input_features[0],
    )


def resampled_chirps(variant):
    random = np.random.default_rng(variant['seed'] + 1)
    duration = variant['duration']
    tensors = {}
    for rate in variant['chirp_rates']:
        length = int(rate * duration) + 13
        time = np.arange(length) / rate
        top = min(rate / 2, 8000) * 0.9
        phase = 2 * np.pi * (60 * time + (top - 60) * time * time / (2 * duration))
        chirp = 0.6 * np.sin(phase) + 0.02 * random.standard_normal(length)
        chirp = chirp.astype(np.float32)
        divisor = gcd(rate, 16000)
        poly = scipy.signal.resample_poly(
            chirp.astype(np.float64), 16000 // divisor, rate // divisor
        )
        tensors[f'chirp_{rate}'] = chirp
        tensors[f'to16k_soxr_{rate}'] = soxr.resample(chirp, rate, 16000, quality='HQ')
        tensors[f'to16k_poly_{rate}'] = poly.astype(np.float32)
    return tensors


if __name__ == '__main__':
    write_all(VARIANTS, make)
