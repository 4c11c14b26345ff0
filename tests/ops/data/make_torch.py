#!/usr/bin/env python3
"""Writes torch.safetensors: inputs, results and gradients of PyTorch's own ops, in float64, for torch_test.cpp.

Run by hand with a Python that has torch, torchvision and safetensors. Each case NAME holds NAME.in0, NAME.in1, ..., NAME.out (for
some NAME.out1), NAME.seed (the output's gradient) and NAME.grad0, ... for the inputs that have one.
"""
import pathlib
import torch
import torch.nn.functional as F
import torchvision
from safetensors.torch import save_file

torch.manual_seed(0)
tensors = {}


def case(name, f, *inputs):
    leaves = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    out = f(*leaves)
    seed = torch.randn_like(out)
    out.backward(seed)
    for i, x in enumerate(leaves):
        tensors[f"{name}.in{i}"] = x.detach()
        if x.grad is not None:
            tensors[f"{name}.grad{i}"] = x.grad
    tensors[f"{name}.out"] = out.detach()
    tensors[f"{name}.seed"] = seed


def r(*shape):
    return torch.randn(*shape, dtype=torch.float64)


# Convolutions
case("conv_plain", lambda x, w, b: F.conv2d(x, w, b), r(2, 3, 5, 4), r(4, 3, 3, 2), r(4))
case("conv_strided", lambda x, w, b: F.conv2d(x, w, b, stride=(2, 3), padding=(1, 2)), r(1, 2, 7, 8), r(3, 2, 3, 3), r(3))
case("conv_dilated", lambda x, w: F.conv2d(x, w, dilation=(2, 3), padding=2), r(1, 2, 7, 8), r(2, 2, 3, 2))
case("conv_grouped", lambda x, w: F.conv2d(x, w, stride=2, padding=1, groups=3), r(2, 6, 5, 5), r(9, 2, 3, 3))
case("conv_depthwise", lambda x, w, b: F.conv2d(x, w, b, padding=1, groups=4), r(2, 4, 4, 5), r(4, 1, 3, 3), r(4))
case("transposed_plain", lambda x, w, b: F.conv_transpose2d(x, w, b), r(2, 3, 3, 4), r(3, 2, 3, 2), r(2))
case("transposed_full", lambda x, w: F.conv_transpose2d(x, w, None, stride=(2, 3), padding=1, output_padding=(1, 2), groups=2,
     dilation=(2, 1)), r(1, 4, 3, 3), r(4, 2, 3, 3))
# Pooling
case("max_pool", lambda x: F.max_pool2d(x, (3, 2), stride=(2, 1), padding=(1, 0)), r(2, 2, 7, 5))
case("avg_pool", lambda x: F.avg_pool2d(x, 3, stride=2, padding=1), r(2, 2, 6, 5))
case("avg_pool_valid", lambda x: F.avg_pool2d(x, 3, stride=2, padding=1, count_include_pad=False), r(2, 2, 6, 5))
case("adaptive_avg", lambda x: F.adaptive_avg_pool2d(x, (3, 2)), r(1, 2, 7, 5))
case("adaptive_max", lambda x: F.adaptive_max_pool2d(x, (3, 2)), r(1, 2, 7, 5))
# Normalisation
case("batch_norm", lambda x, g, b: F.batch_norm(x, None, None, g, b, training=True, eps=1e-3), r(4, 3, 2, 2), r(3), r(3))
case("batch_norm_eval", lambda x, g, b, m, v: F.batch_norm(x, m.detach(), v.detach(), g, b, training=False),
     r(4, 3, 2, 2), r(3), r(3), r(3), r(3).abs() + 0.5)
case("layer_norm", lambda x, g, b: F.layer_norm(x, (3, 5), g, b), r(4, 3, 5), r(3, 5), r(3, 5))
case("group_norm", lambda x, g, b: F.group_norm(x, 2, g, b), r(2, 4, 3, 2), r(4), r(4))
# Losses
labels = torch.tensor([1, 0, 4, 2, 4, 3, 0])
case("cross_entropy", lambda x, t: F.cross_entropy(x, t), r(7, 5), labels)
case("cross_entropy_smooth", lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1, ignore_index=4), r(7, 5), labels)
case("cross_entropy_pixels", lambda x, t: F.cross_entropy(x, t, ignore_index=0), r(2, 3, 2, 2), torch.randint(3, (2, 2, 2)))
case("nll_loss", lambda x, t: F.nll_loss(F.log_softmax(x, 1), t, ignore_index=0), r(7, 5), labels)
case("mse_loss", F.mse_loss, r(3, 4), r(3, 4))
case("l1_loss", F.l1_loss, r(3, 4), r(3, 4))
case("bce", lambda x, t: F.binary_cross_entropy_with_logits(x, t), 4 * r(3, 4), torch.rand(3, 4, dtype=torch.float64))
case("softmax", lambda x: F.softmax(x, 1), r(3, 4, 2))
case("log_softmax", lambda x: F.log_softmax(x, -1), r(3, 4))
# Activations
x = torch.cat([r(20) * 3, torch.tensor([-40.0, -1e-9, 1e-9, 40.0], dtype=torch.float64)])
for name, f in {
    "gelu": F.gelu, "gelu_tanh": lambda v: F.gelu(v, approximate="tanh"), "silu": F.silu, "softplus": F.softplus,
    "hard_swish": F.hardswish, "elu": F.elu, "leaky_relu": F.leaky_relu,
    "log_sigmoid": F.logsigmoid, "sigmoid": torch.sigmoid, "relu": F.relu, "expm1": torch.expm1,
}.items():
    case(name, f, x)
# Products
case("einsum_chain", lambda a, b, c: torch.einsum("bij,jk,kl->bil", a, b, c), r(2, 3, 4), r(4, 5), r(5, 2))
case("einsum_diagonal", lambda a, b: torch.einsum("iij,j->i", a, b), r(3, 3, 4), r(4))
case("einsum_trace", lambda a: torch.einsum("ii->", a), r(4, 4))
case("einsum_outer", lambda a, b: torch.einsum("i,j->ji", a, b), r(3), r(4))
case("einsum_dots", lambda a, b: torch.einsum("...ij,...jk->...ik", a, b), r(5, 1, 2, 3), r(4, 3, 2))
case("einsum_implied", lambda a, b: torch.einsum("ba,cb", a, b), r(3, 4), r(2, 3))
case("matmul_broadcast", torch.matmul, r(5, 1, 2, 3), r(4, 3, 2))
case("linear", F.linear, r(2, 3, 4), r(5, 4), r(5))
case("attention", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), r(2, 3, 4, 5), r(2, 3, 4, 5), r(2, 3, 4, 2))
mask = torch.tensor([[1, 0, 1], [1, 1, 0], [0, 1, 1], [1, 1, 1]], dtype=torch.uint8)
case("attention_masked", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m.bool(), scale=0.3), r(2, 4, 5), r(2, 3, 5), r(2, 3, 2), mask)
# Reductions
case("prod_zero", lambda a: torch.prod(a, 1), torch.tensor([[2.0, 0, 3], [0, 5, 0], [1, 2, 4]], dtype=torch.float64))
case("logsumexp", lambda a: torch.logsumexp(a, (0, 2)), r(3, 4, 2))
case("var", lambda a: torch.var(a, 1), r(3, 4, 2))
case("amax_ties", lambda a: torch.amax(a, 1), torch.tensor([[2.0, 3, 3], [1, 1, 1]], dtype=torch.float64))
case("norm", lambda a: torch.linalg.vector_norm(a, 3.0, 1), r(3, 4))

# Resizing
up = F.interpolate
case("nearest_up", lambda x: up(x, size=(6, 8)), r(2, 2, 3, 4))
case("nearest_odd", lambda x: up(x, size=(7, 3)), r(1, 2, 3, 5))
case("nearest_down", lambda x: up(x, size=(3, 2)), r(1, 2, 6, 4))
case("nearest_exact", lambda x: up(x, size=(5, 3), mode="nearest-exact"), r(1, 2, 7, 9))
case("bilinear_up", lambda x: up(x, size=(6, 8), mode="bilinear"), r(2, 2, 3, 4))
case("bilinear_odd", lambda x: up(x, size=(7, 3), mode="bilinear"), r(1, 2, 4, 7))
case("bilinear_corners", lambda x: up(x, size=(7, 3), mode="bilinear", align_corners=True), r(1, 2, 4, 7))
case("bilinear_antialias", lambda x: up(x, size=(4, 9), mode="bilinear", antialias=True), r(1, 2, 11, 6))
case("bicubic", lambda x: up(x, size=(7, 3), mode="bicubic"), r(1, 2, 5, 7))
case("bicubic_corners", lambda x: up(x, size=(7, 1), mode="bicubic", align_corners=True), r(1, 2, 5, 4))
case("bicubic_antialias", lambda x: up(x, size=(4, 9), mode="bicubic", antialias=True), r(1, 2, 11, 6))
case("linear_signal", lambda x: up(x, size=9, mode="linear"), r(2, 3, 5))
case("trilinear", lambda x: up(x, size=(4, 2, 5), mode="trilinear"), r(1, 2, 2, 3, 3))

# Transformers: norms, gates, positions, attention with few heads of keys, windows and lengths
case("rms_norm", lambda x, g: F.rms_norm(x, (5,), g, eps=1e-6), r(4, 3, 5), r(5))
case("swiglu", lambda g, u: F.silu(g) * u, r(3, 4), r(3, 4))


def rotary(x, positions, base, interleaved):
    d = x.shape[-1]
    angle = positions[:, None].double() * base ** (-torch.arange(0, d, 2).double() / d)
    if interleaved:
        turned = torch.view_as_complex(x.unflatten(-1, (-1, 2))) * torch.polar(torch.ones_like(angle), angle)
        return torch.view_as_real(turned).flatten(-2)
    c, s = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)
    first, second = x.chunk(2, -1)
    return x * c + torch.cat([-second, first], -1) * s


case("rotary", lambda x, p: rotary(x, p, 10000, False), r(2, 3, 4, 6), torch.arange(4))
case("rotary_interleaved", lambda x, p: rotary(x, p, 500, True), r(2, 4, 6), torch.tensor([3, 4, 5, 11]))
case("attention_grouped", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True),
     r(2, 6, 4, 5), r(2, 2, 4, 5), r(2, 2, 4, 3))
near = (torch.arange(5)[:, None] + 2 - torch.arange(7)).abs() < 3
case("attention_window", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=near), r(2, 5, 4), r(2, 7, 4), r(2, 7, 4))
near = near & (torch.arange(5)[:, None] + 2 >= torch.arange(7))
case("attention_causal_window", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=near, enable_gqa=True),
     r(1, 4, 5, 4), r(1, 2, 7, 4), r(1, 2, 7, 4))
lengths = torch.tensor([3, 6, 1])
case("attention_lengths", lambda q, k, v, n: F.scaled_dot_product_attention(
         q, k, v, attn_mask=(torch.arange(6) < n[:, None])[:, None, None]), r(3, 2, 5, 4), r(3, 2, 6, 4), r(3, 2, 6, 4), lengths)
# Signals and volumes
case("conv1d", lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=3, dilation=2, groups=2), r(2, 4, 11), r(6, 2, 3), r(6))
case("conv3d_plain", lambda x, w, b: F.conv3d(x, w, b), r(2, 3, 4, 5, 3), r(4, 3, 2, 3, 2), r(4))
case("conv3d_full", lambda x, w: F.conv3d(x, w, None, stride=(2, 1, 2), padding=(1, 2, 0), dilation=(1, 2, 1), groups=2),
     r(1, 4, 5, 4, 6), r(6, 2, 3, 2, 3))
case("unfold", lambda x: F.unfold(x, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2)), r(2, 3, 5, 6))
case("fold", lambda x: F.fold(x, (5, 6), (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2)), r(2, 18, 12))
# Sampling
grid = lambda *shape: 1.3 * r(*shape)
case("grid_sample", lambda x, g: F.grid_sample(x, g, align_corners=False), r(2, 3, 5, 4), grid(2, 3, 4, 2))
case("grid_sample_corners", lambda x, g: F.grid_sample(x, g, padding_mode="border", align_corners=True), r(1, 2, 5, 4), grid(1, 3, 4, 2))
case("grid_sample_mirrored", lambda x, g: F.grid_sample(x, g, padding_mode="reflection", align_corners=False), r(1, 2, 5, 4), grid(1, 3, 4, 2))
case("grid_sample_nearest", lambda x, g: F.grid_sample(x, g, mode="nearest", padding_mode="reflection", align_corners=True),
     r(1, 2, 5, 4), grid(1, 3, 4, 2))
case("affine_grid", lambda t: F.affine_grid(t, (2, 3, 4, 5), align_corners=False), r(2, 2, 3))
case("affine_grid_corners", lambda t: F.affine_grid(t, (2, 3, 1, 5), align_corners=True), r(2, 2, 3))
boxes = torch.tensor([[0, 0.5, 1.2, 5.1, 6.3], [1, -2.2, 0.1, 3.0, 9.7], [1, 4.0, 4.0, 4.2, 3.5]], dtype=torch.float64)
roi_align = torchvision.ops.roi_align
case("roi_align", lambda x: roi_align(x, boxes, (2, 3), sampling_ratio=2), r(2, 3, 7, 6))
case("roi_align_aligned", lambda x: roi_align(x, boxes, 2, spatial_scale=0.5, sampling_ratio=3, aligned=True), r(2, 3, 7, 6))
tensors["roi_align.boxes"] = boxes
# Sequences without alignment, and sparse matrices
ctc_targets = torch.tensor([[1, 2, 2], [3, 1, 0], [2, 0, 0]])
ctc_lengths = torch.tensor([8, 6, 5]), torch.tensor([3, 2, 1])
case("ctc", lambda x, t, n, m: F.ctc_loss(F.log_softmax(x, 2), t, n, m), r(8, 3, 5), ctc_targets, *ctc_lengths)
case("ctc_empty", lambda x, t, n, m: F.ctc_loss(F.log_softmax(x, 2), t, n, m, blank=4), r(6, 2, 5), ctc_targets[:2],
     torch.tensor([6, 4]), torch.tensor([0, 2]))


def csr(starts, columns, values, dense):
    rows = torch.repeat_interleave(torch.arange(len(starts) - 1), starts.diff())
    matrix = torch.zeros(len(starts) - 1, dense.shape[0], dtype=dense.dtype).index_put((rows, columns), values, accumulate=True)
    return matrix @ dense


case("csr", csr, torch.tensor([0, 2, 2, 5, 6]), torch.tensor([4, 1, 0, 2, 3, 3]), r(6), r(5, 3))

save_file({k: v.contiguous() for k, v in tensors.items()}, pathlib.Path(__file__).with_name("torch.safetensors"))
print(len(tensors), "tensors")
