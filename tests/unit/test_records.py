import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from hotlap import records
from hotlap.errors import RecordError

OLD = Path(__file__).parent / "data" / "profile-schema-1.json"


@pytest.fixture(scope="module")
def profile():
    return records.load(OLD)


def changed(**fields):
    return json.dumps({**json.loads(OLD.read_text()), **fields}).encode()


def test_a_profile_of_schema_1_stays_readable_for_ever(profile):
    assert profile.schema == 1
    assert profile.hotlap == "0.1.0"
    assert profile.command == ("train.py",)
    assert profile.step.median_seconds == pytest.approx(0.0041231315)
    assert (profile.step.samples, profile.step.count, profile.step.seen) == (32.0, 262, 459)
    assert profile.phases["backward"].share == pytest.approx(0.5532546600)
    assert profile.phases["transfer"].seconds is None
    assert profile.memory.parameters_bytes == profile.memory.gradients_bytes == 4_505_640
    assert profile.memory.reserved_bytes is None
    assert profile.kernels.operations["forward"] == 34.0
    assert profile.loaders[0].dataset == "TensorDataset"
    assert profile.optimizers[0].name == "SGD"
    assert profile.lines["forward"][0].file == "/home/user/train.py"
    assert profile.ending.stopped == "enough"
    assert profile.environment["torch"] == "2.13.0+cpu"
    assert profile.verdict.bottleneck == "compute"
    assert [finding.rule for finding in profile.findings] == ["unsettled-timing"]
    assert len(profile.losses) == 459
    assert profile.losses[0] == pytest.approx(2.3321025)


def test_what_is_encoded_decodes_to_the_same(profile):
    assert records.decode(records.encode(profile)) == profile


def test_what_is_saved_loads_to_the_same(profile, tmp_path):
    records.save(profile, tmp_path / "result.json")
    assert records.load(tmp_path / "result.json") == profile
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_saving_replaces_what_was_there(profile, tmp_path):
    file = tmp_path / "result.json"
    file.write_text("something else")
    records.save(profile, file)
    assert records.load(str(file)) == profile


def test_a_runs_folder_is_loaded_by_its_result(profile, tmp_path):
    records.save(profile, tmp_path / "profile.json")
    assert records.load(tmp_path) == profile


def test_phases_of_the_record_add_up_to_its_step(profile):
    known = [phase.seconds for phase in profile.phases.values() if phase.seconds is not None]
    assert sum(known) == pytest.approx(profile.step.median_seconds)
    assert tuple(profile.phases) == records.PHASES


def test_a_record_of_a_newer_hotlap_is_refused_with_the_next_move():
    with pytest.raises(RecordError, match=r"schema 2.*reads up to 1.*Upgrade hotlap"):
        records.decode(changed(schema=2))


def test_a_cut_off_file_is_refused(tmp_path):
    file = tmp_path / "half.json"
    file.write_bytes(OLD.read_bytes()[:1000])
    with pytest.raises(RecordError, match=r"half\.json is not JSON"):
        records.load(file)


@pytest.mark.parametrize("text", [b"", b'{"schema": "\xff"}', b'{"schema": 1, "st'])
def test_json_that_was_cut_short_is_told(text):
    with pytest.raises(RecordError, match="is not JSON"):
        records.decode(text)


@pytest.mark.parametrize("text", [b"\xff\xfe", b"[" * 100_000, b"\0", b"import torch"])
def test_what_is_no_json_at_all_is_no_result(text):
    with pytest.raises(RecordError, match="is no result of hotlap"):
        records.decode(text)


@pytest.mark.parametrize(
    "text",
    [
        b"null",
        b"[1, 2]",
        b"{}",
        b'{"schema": "1"}',
        b'"schema"',
        b'{"schema": 0}',
        b'{"schema": -1}',
    ],
)
def test_other_json_is_told_not_to_be_a_record(text):
    with pytest.raises(RecordError, match="not a record of hotlap"):
        records.decode(text)


@pytest.mark.parametrize(
    "fields", [{"step": None}, {"phases": []}, {"losses": ["much"]}, {"ending": {"code": 0}}]
)
def test_a_record_of_the_wrong_shape_is_refused(fields):
    with pytest.raises(RecordError, match="does not fit schema 1"):
        records.decode(changed(**fields))


def test_a_field_of_a_later_hotlap_is_no_obstacle(profile):
    assert records.decode(changed(colour="red")) == profile


def test_a_missing_file_is_refused_by_name(tmp_path):
    with pytest.raises(RecordError, match=r"nowhere\.json cannot be read: No such file"):
        records.load(tmp_path / "nowhere.json")


def test_a_folder_without_a_result_is_refused(tmp_path):
    with pytest.raises(RecordError, match=r"profile\.json cannot be read"):
        records.load(tmp_path)


def test_saving_where_nothing_can_be_written_is_refused_and_leaves_nothing(profile, tmp_path):
    with pytest.raises(RecordError, match="cannot be written"):
        records.save(profile, tmp_path / "nowhere" / "result.json")
    assert list(tmp_path.iterdir()) == []


def test_saving_below_a_file_is_refused_with_the_reason(profile, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match=r"result\.json cannot be written: Not a directory"):
        records.save(profile, tmp_path / "file" / "result.json")


def test_an_older_record_goes_through_every_migration_between(profile, monkeypatch):
    monkeypatch.setattr(records, "SCHEMA", 3)
    steps = []

    def first(content):
        steps.append(1)
        return {**content, "command": [*content["command"], "--more"]}

    def second(content):
        steps.append(2)
        return {**content, "schema": 3}

    monkeypatch.setattr(records, "MIGRATIONS", {1: first, 2: second})
    migrated = records.decode(OLD.read_bytes())
    assert steps == [1, 2]
    assert migrated.schema == 3
    assert migrated.command == ("train.py", "--more")


def test_records_cannot_be_changed(profile):
    with pytest.raises(AttributeError, match="immutable"):
        profile.step.count = 3


def test_every_part_of_a_record_is_frozen_and_named():
    parts = [
        kind
        for kind in vars(records).values()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    ]
    assert len(parts) > 15
    for kind in parts:
        assert kind.__struct_config__.frozen, kind


def test_a_pipe_is_written_to_by_the_name_it_has():
    read, write = os.pipe()
    try:
        records.write(b"{}\n", Path(f"/dev/fd/{write}"))
        assert os.read(read, 100) == b"{}\n"
    finally:
        os.close(read)
        os.close(write)


@pytest.mark.parametrize("to", ["| cat > out.txt", "> out.txt"])
def test_standard_output_is_written_to_wherever_it_leads(tmp_path, to):
    code = (
        "from hotlap import records; from pathlib import Path; print('before', flush=True); "
        "records.write(b'{}\\n', Path('/dev/stdout')); print('after', flush=True)"
    )
    subprocess.run(
        ["sh", "-c", f'"$0" -c "$1" {to}', sys.executable, code], check=True, cwd=tmp_path
    )
    assert (tmp_path / "out.txt").read_text() == "before\n{}\nafter\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]
