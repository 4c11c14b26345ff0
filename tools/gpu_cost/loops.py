"""Finds the loop in which a kernel does its work."""
import dataclasses


@dataclasses.dataclass
class Loop:
    header: int
    body: frozenset       # indices of instructions
    parent: "Loop | None" = None

    def ordered(self):
        return sorted(self.body)


def blocks_of(program):
    """Starts of basic blocks, in order, and the block of each instruction."""
    starts = {0} | set(program.labels.values())
    for at, instruction in enumerate(program.instructions):
        if instruction.kind in ("branch", "end"):
            starts.add(at + 1)
    starts = sorted(s for s in starts if s < len(program.instructions))
    block_of, block = [], -1
    for at in range(len(program.instructions)):
        if block + 1 < len(starts) and starts[block + 1] == at:
            block += 1
        block_of.append(block)
    return starts, block_of


def dominators(successors):
    """For each block reached from block 0 its dominators (Cooper, Harvey and Kennedy: A Simple, Fast Dominance Algorithm)."""
    order, seen, stack = [], {0}, [(0, iter(successors[0]))]
    while stack:
        block, rest = stack[-1]
        for after in rest:
            if after not in seen:
                seen.add(after)
                stack.append((after, iter(successors[after])))
                break
        else:
            order.append(block)
            stack.pop()
    number = {block: at for at, block in enumerate(order)}
    before = {block: [] for block in order}
    for block in order:
        for after in successors[block]:
            before[after].append(block)
    immediate = {0: 0}
    changed = True
    while changed:
        changed = False
        for block in reversed(order):
            if block == 0:
                continue
            found = None
            for one in before[block]:
                if one not in immediate:
                    continue
                if found is None:
                    found = one
                    continue
                other = one
                while found != other:
                    while number[found] < number[other]:
                        found = immediate[found]
                    while number[other] < number[found]:
                        other = immediate[other]
            if immediate.get(block) != found:
                immediate[block] = found
                changed = True
    return immediate, before


def find_loops(program):
    """Natural loops, the smallest first; each has the next larger loop around it as its parent."""
    if not program.instructions:
        return []
    starts, block_of = blocks_of(program)
    ends = [*starts[1:], len(program.instructions)]
    successors = [sorted({block_of[s] for s in program.successors(end - 1)}) for end in ends]
    immediate, before = dominators(successors)

    def dominates(one, block):
        while block not in (one, 0):
            block = immediate[block]
        return block == one

    bodies = {}
    for block in immediate:
        for header in successors[block]:
            if not dominates(header, block):
                continue
            body, todo = {header}, [block]
            while todo:
                one = todo.pop()
                if one not in body:
                    body.add(one)
                    todo += before[one]
            bodies.setdefault(header, set()).update(body)
    loops = [Loop(starts[header], frozenset(at for block in body for at in range(starts[block], ends[block])))
             for header, body in bodies.items()]
    loops.sort(key=lambda loop: len(loop.body))
    for at, loop in enumerate(loops):
        loop.parent = next((other for other in loops[at + 1:] if loop.body < other.body), None)
    return loops


def flops_in(program, body):
    return sum(program.instructions[at].flops for at in body)


def inner_loop(program):
    """The loop with the most arithmetic outside its inner loops; None if no loop has any. A loop is taken to run ten times
    for each time around it: kernels may peel its first turn, or have a long epilogue in a loop over tiles."""
    loops = find_loops(program)

    def weight(loop):
        around, work = loop.parent, own_flops(program, loop, loops)
        while around:
            around, work = around.parent, 10 * work
        return work

    best = max(loops, key=weight, default=None)
    return best if best and flops_in(program, best.body) else None


def own_flops(program, loop, loops):
    """Arithmetic in the loop, but in none inside it."""
    inside = set().union(*(other.body for other in loops if other.parent is loop))
    return flops_in(program, loop.body - inside)


def pipeline_loop(program):
    """The inner loop, or the smallest loop around it that also reads global memory, as a product must do
    again and again. (A loop that waits for NVIDIA's mbarriers, SYNCS, is fed by another warp.)"""
    loop = inner_loop(program)

    def is_fed(at):
        return program.instructions[at].kind in ("global_read", "copy") or program.instructions[at].name.startswith("SYNCS")

    while loop and loop.parent and not any(map(is_fed, loop.body)):
        loop = loop.parent
    return loop
