"""Admission control: which of the waiting requests join the batch next.

1. Requests of the client with the fewest rows in the batch come first; those of one client in
   their order.
2. If a request does not fit, others pass it only if they cannot delay it (backfilling: D. Lifka,
   The ANL/IBM SP Scheduling System, 1995): it will fit in the turn in which enough texts of the
   batch have ended, even if each becomes as long as it may. Others must end before that turn, or
   fit beside the request then.
3. Long texts leave an eighth of rows and caches to short ones, which would otherwise wait until a
   long one ends.
"""

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Hashable, Sequence
from heapq import heapify, heappop, heappush

from translucid.serving.limits import Limits
from translucid.serving.request import Request
from translucid.serving.ticket import Ticket

SHORT = 256  # steps
RESERVED = 8  # one eighth of rows and caches is kept for short texts


class Use:
    """Rows and cache tokens of requests. All texts with as many beams share a cache that is as long
    as the longest needs."""

    def __init__(self) -> None:
        self.rows = self.cache_tokens = 0
        self._by_beams: dict[int, tuple[int, int]] = {}  # rows and length

    def after(self, request: Request) -> tuple[int, int]:
        """Rows and cache tokens with one more request."""
        rows, length = self._by_beams.get(request.beams, (0, 0))
        own = (rows + request.rows) * max(length, request.length)
        return self.rows + request.rows, self.cache_tokens - rows * length + own

    def add(self, request: Request) -> None:
        rows, length = self._by_beams.get(request.beams, (0, 0))
        self.rows, self.cache_tokens = self.after(request)
        self._by_beams[request.beams] = rows + request.rows, max(length, request.length)


class Room:
    """What the limits allow beside the requests that are admitted."""

    def __init__(self, limits: Limits, admitted: Sequence[Request] = ()) -> None:
        self.limits, self.used, self._long = limits, Use(), Use()
        for request in admitted:
            self.add(request)

    @property
    def full(self) -> bool:
        return self.used.rows >= self.limits.rows

    def fits(self, request: Request) -> bool:
        rows, tokens = self.limits.rows, self.limits.cache_tokens
        if not _within(self.used.after(request), (rows, tokens)):
            return False
        if request.steps <= SHORT or not self.used.rows:
            return True
        most = rows - rows // RESERVED, tokens - tokens // RESERVED
        return _within(self._long.after(request), most)

    def add(self, request: Request) -> None:
        self.used.add(request)
        if request.steps > SHORT:
            self._long.add(request)


class Admission:
    """Chooses requests, turn by turn. For the engine's thread."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._blocked: Ticket | None = None  # the first that does not fit
        self._turn = 0  # in which it will fit
        self._later = Room(limits)  # in that turn, with it

    def choose(
        self, waiting: Sequence[Ticket], active: Sequence[Ticket], turn: int
    ) -> list[Ticket]:
        """Those of the waiting requests that join the active ones in this turn."""
        room = Room(self.limits, [_request(one) for one in active])
        if room.full:
            return []
        rows: Counter[Hashable] = Counter()
        for ticket in active:
            rows[ticket.client] += _request(ticket).rows
        queues: dict[Hashable, deque[tuple[int, Ticket]]] = {}  # of each client
        for place, ticket in enumerate(waiting):
            queues.setdefault(ticket.client, deque()).append((place, ticket))
        order = [(rows[client], queue[0][0], client) for client, queue in queues.items()]
        heapify(order)
        taken: list[Ticket] = []
        blocked = None
        while order and not room.full:
            *_, client = heappop(order)
            _, ticket = queues[client].popleft()
            request = _request(ticket)
            if not room.fits(request):
                if blocked is None:
                    blocked = ticket
                    self._reserve(ticket, [*active, *taken])
                continue
            if blocked is not None and not self._passes(request, turn):
                continue
            room.add(request)
            ticket.last_turn = turn + request.steps
            taken.append(ticket)
            rows[client] += request.rows
            if queue := queues[client]:
                heappush(order, (rows[client], queue[0][0], client))
        return taken

    def _reserve(self, ticket: Ticket, active: Sequence[Ticket]) -> None:
        """Find the turn in which a request will fit, unless this is known."""
        if ticket is self._blocked:
            return
        ending = sorted(active, key=lambda one: one.last_turn)
        request = _request(ticket)

        def fits(ended: int) -> bool:
            left = [_request(one) for one in ending[ended:]]
            return Room(self.limits, left).fits(request)

        ended = bisect_left(range(len(ending)), True, key=fits)
        self._blocked, self._turn = ticket, ending[ended - 1].last_turn
        self._later = Room(self.limits, [*map(_request, ending[ended:]), request])

    def _passes(self, request: Request, turn: int) -> bool:
        """Whether a request cannot delay the one that is blocked."""
        if turn + request.steps <= self._turn:
            return True
        if not self._later.fits(request):
            return False
        self._later.add(request)
        return True


def _within(used: tuple[int, int], most: tuple[int, int]) -> bool:
    return used[0] <= most[0] and used[1] <= most[1]


def _request(ticket: Ticket) -> Request:
    assert isinstance(ticket.work, Request)
    return ticket.work
