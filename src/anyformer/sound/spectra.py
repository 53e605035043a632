"""Spectra of sounds in torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from anyformer.sound.mel import Numbers


def windowed(frames_BTY: Tensor, window_Y: Tensor, points: int) -> Tensor:
    """The amplitudes (B, points // 2 + 1, T) of frames of samples."""
    spectrum: Tensor = torch.fft.rfft(frames_BTY * window_Y, n=points)
    return spectrum.abs().transpose(1, 2)


def amplitudes(sound_BY: Tensor, window_Y: Tensor, hop: int, points: int, edge: str) -> Tensor:
    """The short-time Fourier transform's amplitudes (B, points // 2 + 1, 1 + Y // hop), frames centred on their samples, `edge`
    what lies beyond the sound: `reflect` or `constant` (zeros)."""
    found = torch.stft(
        sound_BY, points, hop, win_length=len(window_Y), window=window_Y, pad_mode=edge, return_complex=True
    )  # fmt: skip
    return found.abs()


def filtered(filters: Numbers, power: Tensor) -> Tensor:
    """Bands (B, I, T) of spectra (B, frequencies, T)."""
    return torch.from_numpy(filters).to(power) @ power.contiguous()


@lru_cache(maxsize=16)
def hann(length: int, exponent: float = 1.0) -> Tensor:
    """The symmetric window (0.5 - 0.5 cos(2 pi n / (length - 1)))^exponent; the exponent 0.85 is Povey's."""
    return torch.hann_window(length, periodic=False, dtype=torch.float64).pow(exponent)


def known(frames: Callable[[int], int], lengths_B: Tensor | None, length: int, like: Tensor) -> Tensor:
    """Which of `length` frames are within their sounds: (B, 1, T), of ones and zeros in the type of `like`."""
    if lengths_B is None:
        return torch.ones(len(like), 1, length, dtype=like.dtype, device=like.device)
    counts = torch.tensor([frames(samples) for samples in lengths_B.tolist()], device=like.device)
    return (torch.arange(length, device=like.device) < counts[:, None])[:, None].to(like.dtype)


def standardised(x_BIT: Tensor, real_B1T: Tensor, within: float, beside: float) -> Tensor:
    """Each bin of each sound with mean 0 and variance 1 over its own frames: (x - mean) / (sqrt(variance + within) + beside);
    zeros behind them."""
    count = real_B1T.sum(2, keepdim=True)
    mean = (x_BIT * real_B1T).sum(2, keepdim=True) / count
    variance = ((x_BIT - mean).square() * real_B1T).sum(2, keepdim=True) / (count - 1).clamp_min(1)
    return (x_BIT - mean) / ((variance + within).sqrt() + beside) * real_B1T
