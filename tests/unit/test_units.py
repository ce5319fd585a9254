import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotlap import units


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "–"),
        (0, "0 ms"),
        (0.0123, "12.3 ms"),
        (0.000_045, "45.0 µs"),
        (3e-9, "0.00 µs"),
        (1.25, "1.25 s"),
        (59.9, "59.9 s"),
        (119.0, "119 s"),
        (125.0, "2 min 5 s"),
        (3600.0, "1 h 0 min"),
        (7384.0, "2 h 3 min"),
    ],
)
def test_seconds_are_said_in_the_unit_a_person_would_choose(value, words):
    assert units.seconds(value) == words


def test_a_time_just_below_a_unit_is_not_said_as_a_thousand_of_the_smaller_one():
    assert units.seconds(0.99996) == "1.00 s"
    assert units.seconds(0.00099996) == "1.00 ms"


@given(st.floats(min_value=1e-6, max_value=119))
def test_seconds_read_back_are_the_value_within_the_digits_shown(value):
    number, unit = units.seconds(value).split()
    scale = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}[unit]
    assert float(number.replace(",", "")) * scale == pytest.approx(value, rel=0.006)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "–"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (512 << 20, "512 MiB"),
        (3.71 * (1 << 30), "3.71 GiB"),
        (2 << 40, "2.00 TiB"),
    ],
)
def test_sizes_are_said_in_binary_units(value, words):
    assert units.size(value) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "–"), (0, "0 %"), (0.432, "43 %"), (0.0432, "4.3 %"), (0.0996, "10 %"), (1, "100 %")],
)
def test_a_small_share_keeps_one_digit_more(value, words):
    assert units.share(value) == words


@given(st.floats(min_value=0, max_value=1))
def test_a_share_is_never_said_more_than_half_a_per_cent_off(value):
    assert abs(float(units.share(value).removesuffix(" %")) / 100 - value) <= 0.005 + 1e-9


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "–"), (7340.3, "7,340 samples/s"), (12.34, "12.3 samples/s"), (0.5, "0.50 samples/s")],
)
def test_rates_carry_their_unit(value, words):
    assert units.rate(value) == words


def test_counts_show_a_fraction_only_where_it_says_something():
    assert [units.count(value) for value in (3, 2.5, 197.25, 12345)] == [
        "3",
        "2.5",
        "197",
        "12,345",
    ]


def test_one_thing_is_singular_and_all_else_plural():
    assert units.plural(1, "step") == "1 step"
    assert units.plural(3, "step") == "3 steps"
    assert units.plural(0, "step") == "0 steps"
    assert units.plural(2, "process", "processes") == "2 processes"


@pytest.mark.parametrize(
    ("say", "value", "words"),
    [
        (units.seconds, 0.009996, "10.0 ms"),
        (units.seconds, 0.09996, "100 ms"),
        (units.seconds, 0.00999, "9.99 ms"),
        (units.seconds, 0.0999, "99.9 ms"),
        (units.size, 9.999 * 1024, "10.0 KiB"),
        (units.rate, 99.96, "100 samples/s"),
    ],
)
def test_three_digits_are_three_digits_also_where_rounding_adds_one(say, value, words):
    assert say(value) == words


@pytest.mark.parametrize(
    ("words", "said"),
    [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")],
)
def test_lists_are_said_as_a_person_would(words, said):
    assert units.listed(words) == said


def test_accuracies_keep_a_tenth_of_a_point():
    assert [units.accuracy(one) for one in (0.7812, 1.0, None)] == ["78.1 %", "100.0 %", "–"]


def test_what_has_no_unit_keeps_three_digits():
    assert [units.decimal(one) for one in (2.3, 0.1, 0.001, 0.00123, 12.3, None)] == [
        *("2.30", "0.10", "0.001", "0.00123", "12.3", "–")
    ]
