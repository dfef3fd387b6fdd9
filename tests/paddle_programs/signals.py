"""Fourier transforms and windows: spectra of a mixed tone, a filter, gradients through them."""

import numpy as np
import paddle

t = np.arange(32) / 32
wave = paddle.to_tensor((np.sin(2 * np.pi * 3 * t) + 0.5 * np.cos(2 * np.pi * 8 * t)).astype("float32"))
spectrum = paddle.fft.rfft(wave)
print(spectrum.shape, spectrum.dtype)
magnitude = paddle.abs(spectrum)
print(paddle.topk(magnitude, 2)[1].tolist(), magnitude.numpy().round(3)[[3, 8]])
print(paddle.fft.rfftfreq(32, d=1 / 32).numpy()[:4])
mask = (paddle.arange(17) < 5).astype("float32")
filtered = paddle.fft.irfft(spectrum * mask.astype("complex64"))
print(np.abs(filtered.numpy() - np.sin(2 * np.pi * 3 * t)).max() < 1e-5)
back = paddle.fft.ifft(paddle.fft.fft(wave.astype("complex64")))
print(bool(paddle.allclose(paddle.real(back), wave, atol=1e-6)), float(paddle.imag(back).abs().max()) < 1e-6)
image = paddle.to_tensor(np.arange(16, dtype="float32").reshape(4, 4))
print(paddle.fft.fft2(image).numpy()[0].round(3))

x = paddle.to_tensor(np.linspace(-1, 1, 8).astype("float32"), stop_gradient=False)
energy = (paddle.abs(paddle.fft.rfft(x)) ** 2).sum()
energy.backward()
print("%.4f" % energy, x.grad.numpy().round(4))
frames = paddle.signal.frame(wave, frame_length=8, hop_length=4)
print(frames.shape, paddle.signal.overlap_add(frames, hop_length=4).shape)
stft = paddle.signal.stft(wave.unsqueeze(0), n_fft=16, hop_length=4, window=paddle.ones([16]))
print(stft.shape, "%.3f" % paddle.abs(stft).sum())
restored = paddle.signal.istft(stft, n_fft=16, hop_length=4, window=paddle.ones([16]))
print(restored.shape, bool(paddle.allclose(restored[0], wave, atol=1e-4)))
