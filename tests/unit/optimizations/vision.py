"""Image sets and transforms as torchvision has them, for scripts where it is not installed."""

# As torchvision's: what is recognised is the library, the name, and what the samples are.
VISION = """
import random
import numpy
from PIL import Image
from torch.utils.data import Dataset

class Compose:
    def __init__(self, transforms):
        self.transforms = transforms
    def __call__(self, image):
        for one in self.transforms:
            image = one(image)
        return image

class RandomCrop:
    def __init__(self, size, padding=None, pad_if_needed=False, fill=0, padding_mode="constant"):
        self.size, self.padding, self.fill = (size, size), padding, fill
        self.pad_if_needed, self.padding_mode = pad_if_needed, padding_mode
    def __call__(self, image):
        array = numpy.pad(numpy.asarray(image), [(self.padding or 0,) * 2] * 2 + [(0, 0)])
        top, left = (random.randint(0, array.shape[at] - self.size[at]) for at in (0, 1))
        return Image.fromarray(array[top : top + self.size[0], left : left + self.size[1]])

class RandomHorizontalFlip:
    def __init__(self, p=0.5):
        self.p = p
    def __call__(self, image):
        flip = torch.rand(1) < self.p
        return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if flip else image

class ToTensor:
    def __call__(self, image):
        array = numpy.array(image)
        array = array[:, :, None] if array.ndim == 2 else array
        return torch.from_numpy(array).permute(2, 0, 1).float() / 255

class Normalize:
    def __init__(self, mean, std):
        self.mean, self.std = mean, std
    def __call__(self, tensor):
        mean, std = (torch.tensor(one).view(-1, 1, 1) for one in (self.mean, self.std))
        return (tensor - mean) / std

class RandomRotation(Compose):
    pass

class CIFAR10(Dataset):
    def __init__(self, transform=None, target_transform=None):
        self.data = numpy.random.RandomState(0).randint(0, 256, (40, 8, 8, 3), dtype=numpy.uint8)
        self.targets = [index % 10 for index in range(40)]
        self.transform, self.target_transform = transform, target_transform
    def __len__(self):
        return len(self.data)
    def __getitem__(self, index):
        image = Image.fromarray(self.data[index])
        return self.transform(image) if self.transform else image, self.targets[index]

class MNIST(CIFAR10):
    def __init__(self, transform=None, target_transform=None):
        super().__init__(transform, target_transform)
        self.data = torch.from_numpy(self.data[:, :, :, 0].copy())
        self.targets = torch.tensor(self.targets)
    def __getitem__(self, index):
        image = Image.fromarray(self.data[index].numpy())
        return self.transform(image), int(self.targets[index])

for one in (Compose, RandomCrop, RandomHorizontalFlip, ToTensor, Normalize, RandomRotation):
    one.__module__ = "torchvision.transforms.transforms"
for one in (CIFAR10, MNIST):
    one.__module__ = "torchvision.datasets.mnist"

normal = Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.25))
optimizer = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)

def content(loader):
    return [[x.tolist(), y.tolist()] for x, y in loader]
"""


def flat(value):
    """All numbers of a nest of lists."""
    return [one for part in value for one in flat(part)] if isinstance(value, list) else [value]
