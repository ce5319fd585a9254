"""How scripts begin in which torch's compiler splits graphs, and tell what those keep."""

COMPILED = """
import torch.nn.functional as F
warnings.simplefilter("default")  # torch's compiler warns of what it does itself
BACKEND = "aot_eager_decomp_partition"  # splits as the usual one does, and builds nothing
plain = torch.compile
torch.compile = lambda call, **kwargs: plain(call, **{"backend": BACKEND, **kwargs})

def nodes(node, seen):
    if node is not None and node not in seen:
        seen.add(node)
        yield node
        for before, _ in node.next_functions:
            yield from nodes(before, seen)

def kept(made):  # bytes that compiled code has for its backward pass, its weights among them
    compiled = (one for one in nodes(made.grad_fn, set()) if "Compiled" in one.name())
    tensors = [one for node in compiled for one in node.saved_tensors if one is not None]
    return sum({one.untyped_storage().data_ptr(): one.nbytes for one in tensors}.values())
"""


def budget(percent):
    return {"memory-budget": {"percent": percent}} if percent < 100 else {"compile": {}}
