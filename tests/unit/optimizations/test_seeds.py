"""Other seeds for a script that seeds itself, and the first seed for one that does not."""

DRAW = """
import random
import numpy

def draw():
    return [torch.rand(1).item(), random.random(), float(numpy.random.rand())]
"""


def test_a_script_without_seeds_draws_the_same_numbers_each_time(train):
    script = DRAW + "told['drawn'] = draw()"
    first, again, other = (train({}, script, seed=seed).told["drawn"] for seed in (0, 0, 5))
    assert first == again
    assert all(a != b for a, b in zip(first, other, strict=True))


def test_the_seeds_a_script_asks_for_are_shifted(train):
    script = (
        DRAW
        + """
def seed(number):
    torch.manual_seed(number)
    random.seed(number)
    numpy.random.seed(number)

seed(42)
told["42"] = draw()
seed(49)
told["49"] = draw()
"""
    )
    plain, shifted = train({}, script).told, train({}, script, seed=7).told
    assert shifted["42"] == plain["49"]
    assert shifted["49"] != plain["49"]
    assert train({}, script, seed=0).told == plain  # the first run has the script's own


def test_seeds_are_shifted_however_they_are_given(train):
    script = (
        DRAW
        + """
torch.random.manual_seed(seed=numpy.int64(START))
random.seed(a=START)
numpy.random.seed(seed=numpy.uint32(START))
told["drawn"] = draw()
"""
    )
    shifted = train({}, script.replace("START", "10"), seed=3)
    assert shifted.told == train({}, script.replace("START", "13")).told


def test_what_is_no_number_is_left_alone(train):
    script = (
        DRAW
        + """
random.seed("a text", version=2)
told["text"] = random.random()
random.seed(None)
numpy.random.seed([1, 2, 3])
told["list"] = float(numpy.random.rand())
"""
    )
    assert train({}, script, seed=3).told == train({}, script).told


def test_the_largest_seeds_stay_within_their_limits(train):
    run = train(
        {},
        DRAW
        + """
numpy.random.seed(2**32 - 1)
torch.manual_seed(2**64 - 1)
told["drawn"] = draw()
""",
        seed=5,
    )
    assert len(run.told["drawn"]) == 3


def test_generators_keep_the_order_of_the_data(train):
    script = """
        generator = torch.Generator().manual_seed(42)
        told["order"] = torch.randperm(8, generator=generator).tolist()
        """
    assert train({}, script, seed=3).told == train({}, script).told


def test_a_seed_for_one_device_is_shifted_like_one_for_all(train):
    """A script that seeds both must not get its own seed back on the device."""
    run = train(
        {},
        """
        for name in ("manual_seed", "manual_seed_all"):
            seeded = getattr(torch.cuda, name)
            told[name] = hasattr(seeded, "__wrapped__")
        """,
        seed=3,
    )
    assert run.told == {"manual_seed": True, "manual_seed_all": True}
