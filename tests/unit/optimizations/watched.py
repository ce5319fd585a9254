"""The beginning of scripts in which the search for what is trained is looked at."""

WATCHED = """
found = []
training.when_training_starts("watched", found.append)

def watched():
    return torch.nn.Module.__call__ is not torch.nn.Module._wrapped_call_impl

def step(loss, *optimizers):
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()

def sgd(*modules):
    return torch.optim.SGD([p for module in modules for p in module.parameters()], lr=0.01)

x = torch.ones(2, 4)
"""
