"""What a weighted backward pass starts from, and what is left to torch to refuse."""


def test_each_loss_starts_from_its_weight(train):
    run = train(
        {},
        """
        from hotlap.optimizations.weights import weighted

        def starts(tensors, gradients=None):
            found = weighted(torch, tensors, gradients, 0.5)
            return None if found is None else [one.tolist() for one in found[1]]

        loss, other = (torch.ones((), requires_grad=True) * 2 for _ in range(2))
        many = torch.ones(2, requires_grad=True) * 2
        told["one"] = starts(loss)
        told["given"] = starts(loss, torch.tensor(3.0))
        told["several"] = starts([loss, many], [None, torch.tensor([1.0, 2.0])])
        told["without"] = starts((loss, other))
        told["refused"] = [
            starts(many),  # not a scalar
            starts(torch.ones(())),  # nothing to go back to
            starts([loss, other], [None]),  # too few
            starts(torch.autograd.graph.get_gradient_edge(loss)),  # no tensor
        ]
        """,
    )
    assert run.told == {
        "one": [0.5],
        "given": [1.5],
        "several": [0.5, [0.5, 1.0]],
        "without": [0.5, 0.5],
        "refused": [None] * 4,
    }
