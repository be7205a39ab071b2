"""Devices and what their manufacturer says that they reach."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Device:
    """A device, by its manufacturer's figures.

    Attributes:
        title: Its name.
        memory: Its bytes.
        bandwidth: The bytes that it reads in a second.
        half: Its FLOPs a second of dense products of bfloat16 or float16, summed in float32.
        single: The same of float32, which PyTorch computes without tensor cores by default.
    """

    title: str
    memory: float
    bandwidth: float
    half: float
    single: float


# Data sheets of NVIDIA's cards for data centers (the SXM versions; AWS publishes that of the A10G),
# and the tables of its white papers "Ampere GA102", "Ada" and "RTX Blackwell GPU Architecture".
# Peaks "with sparsity" are twice these.
DEVICES = {
    "a10g": Device("A10G", 24e9, 0.6e12, 70e12, 35e12),
    "a100": Device("A100 80GB", 80e9, 2.039e12, 312e12, 19.5e12),
    "a100-40gb": Device("A100 40GB", 40e9, 1.555e12, 312e12, 19.5e12),
    "h100": Device("H100", 80e9, 3.35e12, 989e12, 67e12),
    "h200": Device("H200", 141e9, 4.8e12, 989e12, 67e12),
    "l4": Device("L4", 24e9, 0.3e12, 121e12, 30.3e12),
    "l40s": Device("L40S", 48e9, 0.864e12, 362e12, 91.6e12),
    "rtx3090": Device("RTX 3090", 24e9, 0.936e12, 71e12, 35.6e12),
    "rtx4090": Device("RTX 4090", 24e9, 1.008e12, 165.2e12, 82.6e12),
    "rtx5090": Device("RTX 5090", 32e9, 1.792e12, 209.5e12, 104.8e12),
}
