import itertools

import pytest

from hotlap.probes.kernels import summarize

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND  # as torch.profiler gives it: nanoseconds since 1970
MAIN, AUTOGRAD = 11, 12


def host(name, start, end, *, thread=MAIN, correlation=0):
    first, last = (START + round(at * SECOND) for at in (start, end))
    return name, False, first, last, thread, correlation


def device(name, start, end, *, correlation=0):
    return name, True, START + round(start * SECOND), START + round(end * SECOND), 0, correlation


def mark(name, start, end):
    return host("hotlap::" + name, start, end)


def boundaries(*times):
    return [mark("step", time, time) for time in times]


ONE_STEP = [
    *boundaries(0.0, 1.0),
    mark("input", 0.0, 0.1),
    mark("forward", 0.2, 0.4),
    mark("backward", 0.5, 0.8),
    mark("optimizer", 0.8, 0.9),
]


def test_operations_are_counted_in_the_phase_they_begin_in():
    found = summarize(
        [
            *ONE_STEP,
            host("aten::stack", 0.05, 0.06),
            host("aten::linear", 0.2, 0.3),
            host("aten::relu", 0.35, 0.36),
            host("aten::nll_loss", 0.45, 0.46),
            host("aten::mm", 0.55, 0.65, thread=AUTOGRAD),
            host("aten::add_", 0.85, 0.86),
            host("aten::item", 0.95, 0.96),
        ],
        1,
    )
    assert found["operations"] == {
        "input": 1,
        "forward": 2,
        "gap": 1,
        "backward": 1,
        "optimizer": 1,
        "other": 1,
    }
    assert found["steps"] == 1
    assert found["profiled_step_seconds"] == pytest.approx(1.0)
    assert "device_busy_seconds" not in found


def test_an_inner_operation_is_counted_but_its_time_is_taken_once():
    found = summarize(
        [
            *ONE_STEP,
            host("aten::linear", 0.20, 0.30),
            host("aten::addmm", 0.22, 0.29),
            host("aten::copy_", 0.23, 0.24),
        ],
        1,
    )
    assert found["operations"] == {"forward": 3}
    assert found["operator_seconds"]["forward"] == pytest.approx(0.10)
    assert found["big_seconds"]["forward"] == pytest.approx(0.10)


def test_time_of_its_own_decides_what_is_work_and_what_is_overhead():
    found = summarize(
        [
            *ONE_STEP,
            host("aten::linear", 0.2, 0.2 + 28e-6),  # 8 microseconds of its own
            host("aten::addmm", 0.2 + 4e-6, 0.2 + 24e-6),
            host("aten::relu", 0.3, 0.3 + 5e-6),
        ],
        1,
    )
    assert found["operations"] == {"forward": 3}
    assert found["big_seconds"]["forward"] == pytest.approx(20e-6)
    assert found["operator_seconds"]["forward"] == pytest.approx(33e-6)


def test_an_operation_that_lost_its_core_in_one_step_is_as_small_as_in_the_others():
    events = [*boundaries(0, 1, 2, 3), *[mark("forward", at, at + 0.9) for at in range(3)]]
    events += [host("aten::mm", at + 0.3, at + 0.4) for at in range(3)]
    for at, number in itertools.product(range(3), range(5)):
        start, seconds = at + 0.11 + 0.01 * number, 0.005 if number == at else 1e-6
        events.append(host("aten::add", start, start + seconds))
    found = summarize(events, 3)
    assert found["operations"] == {"forward": 6}
    assert found["big_seconds"] == {"forward": pytest.approx(0.1)}
    assert found["lost_seconds"] == {"forward": pytest.approx(0.005)}


def test_operations_of_steps_that_differ_are_taken_as_they_come():
    events = [*boundaries(0, 1, 2), *[mark("forward", at, at + 0.9) for at in range(2)]]
    events += [host("aten::mm", start, start + 0.1) for start in (0.1, 0.3, 1.2)]
    assert summarize(events, 2)["big_seconds"] == {"forward": pytest.approx(0.15)}


def test_threads_do_not_nest_into_each_other():
    found = summarize(
        [
            *ONE_STEP,
            host("aten::mm", 0.5, 0.7, thread=AUTOGRAD),
            host("aten::add", 0.6, 0.65, thread=MAIN),
        ],
        1,
    )
    assert found["operator_seconds"]["backward"] == pytest.approx(0.25)


def test_a_compiled_region_is_work_however_short():
    found = summarize([*ONE_STEP, host("Torch-Compiled Region: 0/0", 0.2, 0.2 + 5e-6)], 1)
    assert found["big_seconds"]["forward"] == pytest.approx(5e-6)


def test_what_lies_outside_the_marked_steps_is_left_out():
    found = summarize(
        [*ONE_STEP, host("aten::mm", -0.5, -0.4), host("aten::mm", 1.5, 1.6)],
        1,
    )
    assert found["operations"] == {}


def test_sums_are_per_step():
    events = [*boundaries(0.0, 1.0, 2.0)]
    for step in (0.0, 1.0):
        events += [
            mark("forward", step + 0.2, step + 0.4),
            host("aten::linear", step + 0.2, step + 0.3),
        ]
    events.append(host("aten::relu", 1.35, 1.36))
    found = summarize(events, 2)
    assert found["steps"] == 2
    assert found["operations"] == {"forward": 1.5}
    assert found["operator_seconds"]["forward"] == pytest.approx(0.105)
    assert found["profiled_step_seconds"] == pytest.approx(1.0)


@pytest.mark.parametrize(("more", "seconds"), [(0, 0.3), (1, (0.3 + 0.3 + 0.6) / 3)])
def test_the_model_is_timed_by_the_middle_step_unless_steps_differ(more, seconds):
    """Where all do the same, a longer one has lost its core."""
    events = [*boundaries(0, 1, 2, 3)]
    for step, longer in enumerate((0.0, 0.3, 0.0)):
        events += [
            mark("forward", step + 0.1, step + 0.2),
            mark("backward", step + 0.3, step + 0.5 + longer),
            *[host("aten::mm", step + 0.15, step + 0.16) for _ in range(1 + more * (step == 1))],
        ]
    assert summarize(events, 3)["profiled_model_seconds"] == pytest.approx(seconds)


def test_only_the_last_steps_asked_for_are_taken():
    events = [*boundaries(0.0, 5.0, 6.0), host("aten::mm", 1.0, 4.0), host("aten::mm", 5.1, 5.2)]
    found = summarize(events, 1)
    assert found["steps"] == 1
    assert found["profiled_step_seconds"] == pytest.approx(1.0)
    assert found["operator_seconds"] == {"other": pytest.approx(0.1)}


def test_the_order_of_the_events_does_not_matter():
    events = [*ONE_STEP, host("aten::linear", 0.2, 0.3), host("aten::addmm", 0.22, 0.29)]
    forwards, backwards = summarize(events, 1), summarize(events[::-1], 1)
    assert forwards["operations"] == backwards["operations"]
    assert forwards["big_seconds"]["forward"] == pytest.approx(backwards["big_seconds"]["forward"])


def test_a_collective_beside_computation_is_hidden_and_the_rest_is_exposed():
    found = summarize(
        [
            *ONE_STEP,
            host("aten::mm", 0.5, 0.6, thread=AUTOGRAD),
            host("gloo:all_reduce", 0.55, 0.75, thread=99),
        ],
        1,
    )
    assert found["communication_seconds"] == pytest.approx(0.15)


def test_a_collective_wholly_beside_computation_costs_nothing():
    found = summarize(
        [
            *ONE_STEP,
            host("aten::mm", 0.5, 0.8, thread=AUTOGRAD),
            host("gloo:all_reduce", 0.55, 0.75, thread=99),
        ],
        1,
    )
    assert found["communication_seconds"] == pytest.approx(0.0)


def test_collectives_that_overlap_each_other_are_waited_for_once():
    found = summarize(
        [
            *ONE_STEP,
            host("c10d::allreduce_", 0.50, 0.70),
            host("gloo:all_reduce", 0.55, 0.75, thread=99),
        ],
        1,
    )
    assert found["communication_seconds"] == pytest.approx(0.25)
    assert found["operations"] == {}


def test_the_host_is_blocked_by_synchronising_and_not_by_launching():
    found = summarize(
        [
            *ONE_STEP,
            host("cudaStreamSynchronize", 0.90, 0.95),
            host("cudaMemcpy", 0.95, 0.97),
            host("hipMemcpyWithStream", 0.97, 0.98),
            host("cudaLaunchKernel", 0.30, 0.35),
        ],
        1,
    )
    assert found["blocked_seconds"] == pytest.approx(0.08)


@pytest.mark.parametrize(
    "launch", ["cudaLaunchKernel", "hipLaunchKernel", "urEnqueueKernelLaunchExp"]
)
def test_a_kernel_belongs_to_the_phase_that_launched_it_whenever_it_runs(launch):
    found = summarize(
        [
            *ONE_STEP,
            host(launch, 0.25, 0.26, correlation=1),
            host(launch, 0.55, 0.56, correlation=2, thread=AUTOGRAD),
            device("sgemm", 0.60, 0.70, correlation=1),
            device("sgemm", 0.70, 0.90, correlation=2),
        ],
        1,
    )
    assert found["device_seconds"] == {
        "forward": pytest.approx(0.1),
        "backward": pytest.approx(0.2),
    }
    assert found["kernels"] == 2
    assert found["copies"] == 0
    assert found["device_busy_seconds"] == pytest.approx(0.3)


def test_a_kernel_launched_in_the_last_step_counts_even_where_it_ran_later():
    found = summarize(
        [
            *ONE_STEP,
            host("cudaLaunchKernel", 0.85, 0.86, correlation=1),
            device("adam", 1.10, 1.20, correlation=1),
        ],
        1,
    )
    assert found["device_seconds"] == {"optimizer": pytest.approx(0.1)}


def test_kernels_that_run_beside_each_other_keep_the_device_busy_once():
    found = summarize([*ONE_STEP, device("a", 0.20, 0.40), device("b", 0.30, 0.50)], 1)
    assert found["device_busy_seconds"] == pytest.approx(0.3)
    assert found["kernels"] == 2


def test_copies_are_told_by_their_direction_and_are_no_kernels():
    found = summarize(
        [
            *ONE_STEP,
            device("Memcpy HtoD (Pinned -> Device)", 0.10, 0.12),
            device("Memcpy DtoH (Device -> Pageable)", 0.90, 0.93),
            device("Memcpy DtoD (Device -> Device)", 0.30, 0.31),
            device("Memset (Device)", 0.40, 0.41),
        ],
        1,
    )
    assert found["copies"] == 3
    assert found["kernels"] == 0
    assert found["to_device_seconds"] == pytest.approx(0.02)
    assert found["from_device_seconds"] == pytest.approx(0.03)


def test_a_collective_on_the_device_is_no_work_and_only_what_sticks_out_counts():
    found = summarize(
        [
            *ONE_STEP,
            device("sgemm", 0.50, 0.60),
            device("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 0.55, 0.75),
        ],
        1,
    )
    assert found["communication_seconds"] == pytest.approx(0.15)
    assert found["device_seconds"] == {"backward": pytest.approx(0.1)}
    assert found["device_busy_seconds"] == pytest.approx(0.25)
    assert found["kernels"] == 1


def test_our_own_ranges_on_the_device_are_no_kernels():
    found = summarize(
        [*ONE_STEP, device("hotlap::forward", 0.2, 0.4), device("sgemm", 0.2, 0.3)], 1
    )
    assert found["kernels"] == 1
    assert found["device_busy_seconds"] == pytest.approx(0.1)


def allocation(size, at):
    return host("[memory]", at, at, correlation=size)


def test_activations_are_what_forward_and_loss_left_allocated_for_the_backward_pass():
    found = summarize(
        [
            *ONE_STEP,
            allocation(7000, 0.05),  # a batch
            allocation(1000, 0.21),
            allocation(500, 0.22),
            allocation(-500, 0.23),  # freed again within the forward pass
            allocation(30, 0.45),  # the loss
            allocation(9000, 0.55),  # gradients
            allocation(-1000, 0.60),
        ],
        1,
    )
    assert found["activations_bytes"] == 1030
    assert found["operations"] == {}


def test_of_several_backward_passes_the_largest_tells_the_activations():
    events = [*boundaries(0.0, 1.0, 2.0, 3.0)]
    for step, size in enumerate((100, 300, 200)):
        events += [
            mark("forward", step + 0.2, step + 0.4),
            mark("backward", step + 0.5, step + 0.8),
            allocation(size, step + 0.3),
            allocation(-size, step + 0.6),
        ]
    assert summarize(events, 3)["activations_bytes"] == 300


def test_where_no_allocation_was_seen_the_activations_are_unknown():
    assert summarize(ONE_STEP, 1)["activations_bytes"] is None


def test_ranges_of_the_users_drawn_on_the_device_are_no_kernels():
    found = summarize(
        [
            *ONE_STEP,
            host("my block", 0.2, 0.4),
            device("my block", 0.2, 0.4),
            device("sgemm", 0.2, 0.3),
        ],
        1,
    )
    assert found["kernels"] == 1
    assert found["device_busy_seconds"] == pytest.approx(0.1)


@pytest.mark.parametrize("events", [[], boundaries(0.0), [host("aten::mm", 0.0, 1.0)]])
def test_without_a_whole_step_the_problem_is_said(events):
    found = summarize(events, 3)
    assert found["steps"] == 0
    assert "no whole step" in found["problem"]


def test_nanoseconds_survive_clocks_that_count_from_1970():
    found = summarize([*ONE_STEP, host("aten::mm", 0.2, 0.2 + 17e-9)], 1)
    assert found["operator_seconds"]["forward"] == pytest.approx(17e-9, rel=0.01)
