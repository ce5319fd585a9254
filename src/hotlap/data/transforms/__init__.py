"""Random crops, flips and the like for whole batches, on the device the batch lives on.

Every image of a batch gets random numbers of its own, and what is drawn has the distribution that
torchvision documents for a single image. No transform writes to its input.
"""

from hotlap.data.transforms.colour import ColorJitter
from hotlap.data.transforms.erasing import Cutout, RandomErasing
from hotlap.data.transforms.geometry import Crop, Flip, Resize
from hotlap.data.transforms.transform import Compose, Transform
from hotlap.data.transforms.values import Convert, Normalize

__all__ = (
    "ColorJitter",
    "Compose",
    "Convert",
    "Crop",
    "Cutout",
    "Flip",
    "Normalize",
    "RandomErasing",
    "Resize",
    "Transform",
)
