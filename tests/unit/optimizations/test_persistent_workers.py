"""persistent-workers: the same processes in the next epoch."""

PERSISTENT = {"persistent-workers": {}}
SCRIPT = """
class Who(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return os.getpid()

loader = DataLoader(Who(), batch_size=2, shuffle=True, num_workers=WORKERS)
told["epochs"] = [sorted({int(x) for batch in loader for x in batch}) for _ in range(2)]
told["main"] = os.getpid()
"""


def test_the_workers_of_the_first_epoch_load_the_second(train):
    run = train(PERSISTENT, SCRIPT.replace("WORKERS", "2"))
    first, second = run.told["epochs"]
    assert first == second
    assert run.told["main"] not in first
    assert run.done["persistent-workers"]["status"] == "applied"


def test_a_loader_without_workers_is_left_alone(train):
    run = train(PERSISTENT, SCRIPT.replace("WORKERS", "0"))
    assert run.told["epochs"] == [[run.told["main"]]] * 2
    assert run.done["persistent-workers"]["status"] == "refused"


def test_workers_that_the_recipe_gives_live_on_too(train):
    both = {"persistent-workers": {}, "loader-workers": {"workers": 1}}
    run = train(both, SCRIPT.replace("WORKERS", "0"))
    assert run.told["epochs"][0] == run.told["epochs"][1] != [run.told["main"]]


def test_workers_that_the_recipe_takes_away_cannot(train):
    both = {"persistent-workers": {}, "loader-workers": {"workers": 0}}
    run = train(both, SCRIPT.replace("WORKERS", "2"))
    assert run.told["epochs"] == [[run.told["main"]]] * 2
    assert run.done["loader-workers"]["status"] == "applied"
    assert run.done["persistent-workers"]["status"] == "refused"


def test_a_loader_that_has_them_already_counts_as_done(train):
    script = SCRIPT.replace("num_workers=WORKERS", "num_workers=1, persistent_workers=True")
    assert train(PERSISTENT, script).done["persistent-workers"]["status"] == "applied"


CHANGING = """
class Told(torch.utils.data.Dataset):
    epoch = 0

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return self.epoch

data = Told()
loader = DataLoader(data, batch_size=2, shuffle=True, num_workers=1)
told["epochs"] = []
for epoch in range(4):
    data.epoch = epoch // 2
    told["epochs"].append(sorted({int(x) for batch in loader for x in batch}))
"""


def test_workers_see_what_a_script_changes_on_its_data_set(train):
    run = train(PERSISTENT, CHANGING)
    assert run.told["epochs"] == [[0], [0], [1], [1]]
    assert "the script changes `epoch`" in str(run.done["persistent-workers"]["until"])


def test_workers_that_the_script_keeps_stay_as_they_are(train):
    script = CHANGING.replace("num_workers=1", "num_workers=1, persistent_workers=True")
    assert train(PERSISTENT, script).told["epochs"] == [[0]] * 4


def test_workers_see_the_labels_that_a_script_sets_in_many_records(train):
    records = CHANGING.replace("return self.epoch", "return self.records[index]['label']").replace(
        "data.epoch = epoch // 2", "data.records[90]['label'] = epoch // 2"
    )
    records = records.replace("return 8", "return 91").replace("batch_size=2", "batch_size=91")
    records = records.replace("epoch = 0", "records = None").replace(
        "data = Told()", "data = Told()\ndata.records = [{'label': 0} for _ in range(91)]"
    )
    run = train(PERSISTENT, records)
    assert run.told["epochs"] == [[0], [0], [0, 1], [0, 1]]
    assert "the script changes `records[...]`" in str(run.done["persistent-workers"]["until"])


def test_what_workers_count_begins_anew_with_each_epoch(train):
    script = """
class Counted(torch.utils.data.Dataset):
    made = 0

    def __len__(self):
        return 8

    def __getitem__(self, index):
        self.made += 1
        return self.made

loader = DataLoader(Counted(), batch_size=2, num_workers=1)
told["epochs"] = [[int(x) for batch in loader for x in batch] for _ in range(2)]
"""
    run = train(PERSISTENT, script)
    assert run.told["epochs"] == [list(range(1, 9))] * 2
    assert run.done["persistent-workers"] == {
        "status": "refused",
        "detail": "making a sample changes `made`, which would live on",
    }
