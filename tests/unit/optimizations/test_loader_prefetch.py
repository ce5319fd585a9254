"""loader-prefetch: how many batches workers keep ready."""

PREFETCH = {"loader-prefetch": {"batches": 5}}


def test_workers_prepare_that_many_batches_ahead(train):
    run = train(
        PREFETCH,
        """
        class Counted(torch.utils.data.Dataset):
            def __len__(self):
                return 64

            def __getitem__(self, index):
                return index

        loader = DataLoader(Counted(), batch_size=1, num_workers=2, prefetch_factor=2)
        told["factor"] = loader.prefetch_factor
        iterator = iter(loader)
        told["asked for"] = iterator._send_idx
        """,
    )
    assert run.told == {"factor": 5, "asked for": 10}
    assert run.done["loader-prefetch"]["detail"] == "prefetch_factor=5"


def test_a_loader_without_workers_is_left_alone(train):
    run = train(
        PREFETCH,
        """
        loader = DataLoader(TensorDataset(torch.ones(4)), shuffle=True)
        told["batches"] = len(list(loader))
        """,
    )
    assert run.told["batches"] == 4
    assert run.done["loader-prefetch"]["status"] == "refused"
