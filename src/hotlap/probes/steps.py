"""When one training step ends and the next begins, and what it trained on.

Pure bookkeeping: told of optimizer steps, batches, forwards and backwards, it answers whether a
step has ended, how many samples it had and whether anything but training happened in it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from hotlap.probes.company import Company

HISTORY = 64
ENOUGH_TO_TELL = 48
UNFED = 2  # steps in a row without a batch: from there on no loader feeds them
AHEAD = 2  # batches: more are fetched before the first step by an evaluation only

STEP = "step"
EPOCH = "epoch"  # a loader was started anew within the step
EVALUATION = "evaluation"  # the model was evaluated within the step
RESUMED = "resumed"  # and then a loader that trains was started, as for an epoch


class Rounds:
    """Finds the optimizer whose step ends a round: with several, the one that steps least often.

    One optimizer ends a step each time. A GAN's two make one step of both. A critic stepped five
    times for each generator step makes one step of six. The choice is learned over the first steps
    and then kept for as long as that optimizer still steps.
    """

    def __init__(self) -> None:
        self._order: list[int] = []
        self._history: deque[int] = deque(maxlen=HISTORY)
        self._last: int | None = None  # the optimizer that ends a round
        self._since = 0  # steps of others since it stepped
        self._longest = 0  # the most of those that were ever between two of its steps
        self._ended = 0  # rounds, while it was being learned
        self._early: int | None = None

    @property
    def only(self) -> int | None:
        """The optimizer if no other has ever stepped: then each of its steps is a round."""
        return self._order[0] if len(self._order) == 1 else None

    @property
    def early(self) -> int:
        """Rounds that ended too often at first, as nobody knew who else would step in them."""
        return self._too_many() if self._early is None else self._early

    def stepped(self, optimizer: int, *, late: bool = False) -> bool:
        """Whether a round ends here; `late`: measuring should be over, so fewer are waited for."""
        learning = len(self._history) < HISTORY
        if not learning and self._early is None:
            self._early = self._too_many()
        self._history.append(optimizer)
        if optimizer not in self._order:
            self._order.append(optimizer)
        patience = self._longest + 2 if late else 2 * self._longest + 2
        if (late or not learning) and self._since > patience:  # it steps no more
            for _ in range(len(self._history) - self._since):
                self._history.popleft()
            learning = True
            self._since = self._longest = 0
        if learning:
            self._last = self._choose()
        if optimizer != self._last:
            self._since += 1
            return False
        self._longest = max(self._longest, self._since)
        self._since = 0
        self._ended += self._early is None
        return True

    def _too_many(self) -> int:
        """None, where what came first was no beginning of a round like the later ones."""
        steps = list(self._history)
        if self._last not in steps or steps.index(self._last) > self._longest:
            return 0
        return max(0, self._ended - steps.count(self._last))

    def _choose(self) -> int:
        counts = Counter(self._history)
        if len(self._history) >= ENOUGH_TO_TELL:  # one that stepped a single time ends no round
            counts = Counter({key: count for key, count in counts.items() if count > 1}) or counts
        recent = [key for key in self._order if counts[key]]
        rarest = min(counts[key] for key in recent)
        # Within a round some have stepped once more than others: those step equally often.
        return [key for key in recent if counts[key] <= rarest + 1][-1]


Told = tuple[str, Any, Any, bool]  # the last: fetched without gradients, or called as a replay
FETCHED, TRAINED, LOOKED, CALLED, ENDED = "fetched", "trained", "looked", "called", "ended"
BEGUN = "begun"  # the training of an epoch


class Tally:
    """What happened since the last step boundary.

    Hooks that stand on the way of every step only tell (`tell`): what it comes to is worked out
    when somebody asks. `on_trained` hears of each loader whose batch was trained on, `on_mistaken`
    of one where that turned out not to be so.
    """

    def __init__(
        self,
        on_trained: Callable[[int], None] | None = None,
        on_mistaken: Callable[[int], None] | None = None,
    ) -> None:
        self._on_trained = on_trained
        self._on_mistaken = on_mistaken
        self._company = Company()
        self._blind: set[int] = set()  # loaders whose last batch was fetched without gradients
        self._trains_blind = False  # as somebody does who fetches ahead of the training
        self.told: list[Told] = []
        self.tell: Callable[[Told], None] = self.told.append
        self.pending: dict[int, list[int | None]] = {}  # loader -> batches not yet trained on
        self.uses_loader = False  # and its batches can be counted
        self._unfed = 0  # steps in a row that trained on no batch of a loader
        self._looked_at: int | None = None  # the loader whose last batch was only looked at
        self._last_loader: int | None = None
        self._trains = False  # a backward pass has been seen
        self.loader_started = False
        self.evaluated = False
        self.resumed = False  # a loader that trains was started, and no evaluation seen since
        self._start()

    def _start(self) -> None:
        self.samples = 0
        self.idle_fetches = 0
        self._had_guests = False
        self._passed_back = False
        self._calls: dict[tuple[bool, bool], dict[int, int]] = {}
        self._begin()

    def _begin(self) -> None:
        """What was fetched from here on and not trained on yet, and what was trained on."""
        self._unused: Counter[int] = Counter()
        self._used: set[int] = set()

    def evaluate(self) -> None:
        self.evaluated, self.resumed = True, False

    def resume(self) -> None:
        """A loader that trains is started, as for an epoch of training."""
        self.resumed = True
        self.tell((BEGUN, None, None, False))

    def fetched(self, samples: int | None, loader: int, *, blind: bool = False) -> None:
        """`blind`: while gradients were disabled, as an evaluation does."""
        if self._looked_at is not None:
            self._drop(self._looked_at)
            self._looked_at = None
        if blind != (loader in self._blind):
            self._drop(loader)  # it served something else until now
            self._blind ^= {loader}
        self.pending.setdefault(loader, []).append(samples)
        self._unused[loader] += 1
        self._last_loader = loader

    def looked(self) -> None:
        """A forward pass without gradients: what was fetched last may not be for training."""
        self._looked_at = self._last_loader

    def forward(
        self, module: int, samples: int | None, *, replay: bool, training: bool = True
    ) -> None:
        """A call of one root module with gradients; `replay` when a closure repeats the same batch.

        A single sample beside whole batches is not trained on: an agent picks what to do by it.
        Nor is what it is called with in evaluation mode, where the same step has other calls.
        """
        if samples is None:
            return
        calls = self._calls.setdefault((samples != 1, training), {})
        before = calls.get(module, 0)
        calls[module] = max(before, samples) if replay else before + samples

    def _called_with(self) -> int | None:
        """Where no loader tells: the root module called least saw each batch once."""
        each: dict[int, int] = {}
        for kind in sorted(self._calls):  # what says most about training comes last
            each |= self._calls[kind]
        return min(each.values(), default=None)

    def backward(self) -> list[int]:
        """Each loader's oldest batch is trained on now; returns the loaders, several if zipped."""
        self._looked_at = None
        self._passed_back = True
        if not self._trains:  # nobody was seen to look at batches before the model was known
            self._begin_training()
        loaders = self._without_looks([key for key, batches in self.pending.items() if batches])
        if not loaders:
            return []
        loaders, guests = self._company.meet(loaders)
        self._show_out(guests)
        for loader in loaders:
            samples = self.pending[loader].pop(0)
            self._unused[loader] -= 1
            self._used.add(loader)
            self.uses_loader |= samples is not None
            self.samples += samples or 0
            if self._on_trained is not None:
                self._on_trained(loader)
        for loader in self._company.mistaken():
            if self._on_mistaken is not None:
                self._on_mistaken(loader)
        return loaders

    def _begin_training(self) -> None:
        self._trains = True
        for loader, batches in self.pending.items():
            if len(batches) > 1 and loader != self._last_loader:
                batches.clear()
        there = {key: len(batches) for key, batches in self.pending.items() if batches}
        ahead = 0 < max(there.values(), default=0) <= AHEAD
        self._trains_blind = ahead and there.keys() <= self._blind

    def _without_looks(self, loaders: list[int]) -> list[int]:
        """What was fetched without gradients is not for training, unless all of it is."""
        blind = [loader for loader in loaders if loader in self._blind]
        if not blind or (self._trains_blind and blind == loaders):
            return loaders
        self._show_out(blind)
        return [loader for loader in loaders if loader not in self._blind]

    def _show_out(self, guests: list[int]) -> None:
        self._had_guests |= bool(guests)
        for loader in guests:
            self._drop(loader)

    def _drop(self, loader: int) -> None:
        self.idle_fetches += len(self.pending.pop(loader, ()))

    def drop_pending(self) -> None:
        """Forgets a batch fetched ahead: the window it belongs to is over."""
        self.closed()
        self.pending.clear()

    def closed(self) -> list[tuple[int | None, str]]:
        """Of each step whose end was told: its samples (None when unknown) and its kind."""
        steps = []
        for what, first, second, flag in self.told:
            if what == FETCHED:
                self.fetched(first, second, blind=flag)
            elif what == TRAINED:
                self.backward()
            elif what == LOOKED:
                self.looked()
            elif what == BEGUN:
                self._begin()
            elif what == CALLED:
                module, training = first
                self.forward(module, second, replay=flag, training=training)
            else:
                steps.append(self._close(plain=True))
        self.told.clear()
        return steps

    def close(self) -> tuple[int | None, str]:
        """Ends the step: its samples (None when unknown) and its kind."""
        self.closed()
        ended = self._close(plain=False)
        self.loader_started = self.evaluated = self.resumed = False
        return ended

    def _close(self, *, plain: bool) -> tuple[int | None, str]:
        """`plain`: nothing but training was seen when it ended; what is now, came later."""
        samples: int | None = self.samples or None
        self._unfed = 0 if samples else self._unfed + self._passed_back
        if self._unfed >= UNFED:  # batches that were kept are used again
            self.uses_loader = False
        if samples is None and not self.uses_loader:
            samples = self._called_with()
        for loader, batches in self.pending.items():  # one may have been fetched ahead
            self.idle_fetches += max(0, len(batches) - 1)
            self.pending[loader] = batches[-1:]
        started = self.loader_started and not plain
        evaluated = (self.evaluated and not plain) or (started and self._had_guests)
        if evaluated or self.idle_fetches >= 2:
            kind = RESUMED if self.resumed and not plain and self._only_trains() else EVALUATION
        elif started:
            kind = EPOCH
        else:
            kind = STEP
        self._start()
        return samples, kind

    def _only_trains(self) -> bool:
        """Whether what was fetched since the epoch began is trained on; one may be ahead."""
        fetched = self._unused.items()
        return all(unused <= 1 and loader in self._used for loader, unused in fetched)
