"""tf32: switches of torch's own."""


def test_matrix_products_may_use_tf32(train):
    run = train(
        {"tf32": {}},
        """
        told["precision"] = torch.get_float32_matmul_precision()
        told["convolutions"] = torch.backends.cudnn.allow_tf32
        """,
    )
    assert run.told == {"precision": "high", "convolutions": True}
    assert run.done["tf32"]["status"] == "applied"
