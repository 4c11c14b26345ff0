#!/usr/bin/env python3
"""Writes tests/data/reference/transforms.safetensors: what torchvision makes of pictures, for the tests of transforms.

Run by hand, with torch, torchvision and safetensors installed:  python3 tests/data/make_transforms.py
"""

import pathlib

import torch
from safetensors.torch import save_file
from torchvision.transforms import InterpolationMode
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

BILINEAR, NEAREST = InterpolationMode.BILINEAR, InterpolationMode.NEAREST
random = torch.Generator().manual_seed(3)
H, W = 9, 12
# Whole byte values, so that picture files could hold them; smooth, with some values twice.
stored = (torch.nn.functional.interpolate(torch.rand(1, 3, 4, 5, generator=random), (H, W), mode="bilinear")[0] * 255).to(torch.uint8)
colour = stored.float() / 255
grey = colour[:1].clone()
out = {"stored": stored.permute(1, 2, 0), "colour": colour, "grey": grey}

both = {
    "horizontal_flip": F.horizontal_flip,
    "vertical_flip": F.vertical_flip,
    "crop": lambda x: F.crop(F.pad(x, [4, 4, 4, 4]), 1, 6, H, W),
    "rotate": lambda x: F.rotate(x, 25.0, interpolation=BILINEAR),
    "rotate_nearest": lambda x: F.rotate(x, -40.0, interpolation=NEAREST),
    "affine": lambda x: F.affine(x, 12.0, [2, -1], 1.2, [8.0, -5.0], interpolation=BILINEAR),
    "shear_corner": lambda x: F.affine(x, 0.0, [0, 0], 1.0, [11.0, 0.0], interpolation=BILINEAR, center=[0, 0]),
    "blur3": lambda x: F.gaussian_blur(x, [3, 3], [0.7, 0.7]),
    "blur7": lambda x: F.gaussian_blur(x, [7, 7], [1.9, 1.9]),
    "erase": lambda x: F.erase(x, 2, 3, 4, 5, torch.zeros(1)),
    "brightness": lambda x: F.adjust_brightness(x, 1.6),
    "contrast": lambda x: F.adjust_contrast(x, 1.7),
    "contrast_low": lambda x: F.adjust_contrast(x, 0.3),
    "saturation": lambda x: F.adjust_saturation(x, 1.8),
    "sharpness": lambda x: F.adjust_sharpness(x, 1.9),
    "sharpness_low": lambda x: F.adjust_sharpness(x, 0.2),
    "hue": lambda x: F.adjust_hue(x, 0.3),
    "hue_back": lambda x: F.adjust_hue(x, -0.45),
    "grayscale": lambda x: F.rgb_to_grayscale(x, num_output_channels=3) if x.shape[0] == 3 else x,
    "posterize": lambda x: F.posterize(x, 3),
    "solarize": lambda x: F.solarize(x, 0.6),
    "invert": F.invert,
    "autocontrast": F.autocontrast,
    "equalize": F.equalize,
}
for name, f in both.items():
    out["colour." + name], out["grey." + name] = f(colour), f(grey)

# Cropped, then scaled with antialiasing: smaller, larger, and one axis each way.
for name, (top, left, height, width, size) in {
    "smaller": (1, 2, 7, 9, [4, 4]),
    "larger": (2, 1, 4, 5, [9, 11]),
    "mixed": (0, 0, 9, 12, [13, 5]),
}.items():
    out["resized." + name] = F.resized_crop(colour, top, left, height, width, size, antialias=True)

# Every operation of RandAugment, with its magnitude at each of 31 strengths.
for policy, name in ((v2.RandAugment(), "rand"), (v2.TrivialAugmentWide(), "trivial")):
    space = policy._AUGMENTATION_SPACE
    strengths = []
    for operation, (magnitudes, signed) in space.items():
        values = magnitudes(31, H, W)
        strengths.append(torch.zeros(31) if values is None else values.float())
        if name == "trivial":
            magnitude = 0.0 if values is None else float(values[17]) * (-1 if signed and operation[0] != "T" else 1)
            out["auto." + operation] = policy._apply_image_or_video_transform(
                colour, operation, magnitude, interpolation=NEAREST, fill=policy._fill
            )
    out["strengths." + name] = torch.stack(strengths)

batch = torch.rand(3, 2, 4, 5, generator=random)
labels = torch.tensor([2, 0, 0])
out |= {"batch": batch, "labels": labels}
mixup, cutmix = v2.MixUp(num_classes=4), v2.CutMix(num_classes=4)
given = {"labels": labels, "batch_size": 3, "lam": 0.3}
out["mixup"], out["mixup_labels"] = mixup.transform(batch, given), mixup.transform(labels, given)
given = {"labels": labels, "batch_size": 3, "box": (1, 0, 4, 3), "lam_adjusted": 1 - 9 / 20}
out["cutmix"], out["cutmix_labels"] = cutmix.transform(batch, given), cutmix.transform(labels, given)

folder = pathlib.Path(__file__).parent / "reference"
folder.mkdir(exist_ok=True)
save_file({name: tensor.detach().clone().contiguous() for name, tensor in out.items()}, folder / "transforms.safetensors")
