"""Peak floating-point operations per second of devices, for model FLOPs utilisation."""

import re
from typing import NamedTuple

import torch


class Peak(NamedTuple):
    """10¹² operations per second, without sparsity: bf16 matrices on tensor cores (None if not supported), fp32 matrices as
    TF32 on tensor cores (None if not supported), and in full fp32."""

    bf16: float | None
    tf32: float | None
    fp32: float


#: regular expression for a device's whole name in PyTorch → its peak, from NVIDIA's data sheets, of SXM boards where the name
#: says nothing else; values with sparsity are halved
PEAKS = {
    # NVIDIA Tesla V100 data sheet (SXM2; PCIe; V100S)
    r"Tesla V100-SXM\d-\d+GB(-LS)?": Peak(None, None, 15.7),
    r"Tesla V100-PCIE-\d+GB": Peak(None, None, 14.0),
    r"Tesla V100S-PCIE-\d+GB": Peak(None, None, 16.4),
    # NVIDIA T4 data sheet
    r"Tesla T4": Peak(None, None, 8.1),
    # NVIDIA A100 data sheet: the same for all boards
    r"(NVIDIA )?A100-(SXM4|PCIE)-\d+GB": Peak(312.0, 156.0, 19.5),
    r"NVIDIA A100 80GB PCIe": Peak(312.0, 156.0, 19.5),
    # NVIDIA A10, A30 and A40 data sheets
    r"NVIDIA A10": Peak(125.0, 62.5, 31.2),
    r"NVIDIA A30": Peak(165.0, 82.0, 10.3),
    r"NVIDIA A40": Peak(149.7, 74.8, 37.4),
    # NVIDIA H100 data sheet (SXM; PCIe; NVL)
    r"NVIDIA H100 80GB HBM3": Peak(989.4, 494.7, 66.9),
    r"NVIDIA H100 PCIe": Peak(756.5, 378.0, 51.2),
    r"NVIDIA H100 NVL": Peak(835.5, 417.5, 60.0),
    # NVIDIA H200 data sheet (SXM; NVL)
    r"NVIDIA H200": Peak(989.4, 494.7, 66.9),
    r"NVIDIA H200 NVL": Peak(835.5, 417.5, 60.0),
    # NVIDIA L4, L40 and L40S data sheets
    r"NVIDIA L4": Peak(121.0, 60.0, 30.3),
    r"NVIDIA L40": Peak(181.05, 90.5, 90.5),
    r"NVIDIA L40S": Peak(362.05, 183.0, 91.6),
    # NVIDIA Ampere GA102 and Ada white papers; bf16 with sums in fp32, as PyTorch asks for
    r"NVIDIA GeForce RTX 3090": Peak(71.0, 35.6, 35.6),
    r"NVIDIA GeForce RTX 4090": Peak(165.2, 82.6, 82.6),
}


def peak_of(name: str, precision: str, tf32: bool) -> float | None:
    """Peak operations per second of the device ``name`` in ``precision`` "bf16" or "fp32"; ``tf32``: whether fp32 matrices are
    multiplied as TF32. None if it is unknown or not supported."""
    peak = next((peak for pattern, peak in PEAKS.items() if re.fullmatch(pattern, name)), None)
    if peak is None:
        return None
    in_fp32 = peak.tf32 if tf32 and peak.tf32 is not None else peak.fp32
    tera = peak.bf16 if precision == "bf16" else in_fp32
    return None if tera is None else tera * 1e12


def peak_here(device: torch.device, precision: str) -> float | None:
    """The peak of this process's device, under PyTorch's settings; None on a CPU."""
    if device.type != "cuda":
        return None
    tf32 = torch.get_float32_matmul_precision() != "highest"
    return peak_of(torch.cuda.get_device_name(device), precision, tf32)
