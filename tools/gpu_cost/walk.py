"""Runs the integer arithmetic of a wave's lanes through a kernel, to learn trip counts and addresses.

A value is an int (the same for all lanes), a list with one for each lane, or None: not known, because it comes from memory or from
arithmetic on floats. Machines (amd_lanes.py, sass_lanes.py) run the instructions. If a branch depends on a value that is not
known, the walk goes towards the loop, and stays in it.
"""
import collections
import dataclasses

MASK = 0xFFFFFFFF


@dataclasses.dataclass
class Addresses:
    local: list | None = None     # of the active lanes; None for the other lanes
    globals: list | None = None


@dataclasses.dataclass
class Trace:
    steps: list          # (index of the instruction, Addresses or None), of one iteration of the loop
    guessed: int = 0     # branches that depended on unknown values
    whole: bool = True   # whether the iteration was run from the loop's start to its end


def address_of_argument(at):
    """Word `at` of a kernel's arguments, which are pointers: buffers are 256 MiB apart, below 4 GiB."""
    return (at // 2 % 15 + 1) << 28 if at % 2 == 0 else 0


def signed(value, bits=32):
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def each(function, *values):
    """The function of the values, lane by lane."""
    lanes = 0
    for value in values:
        if value is None:
            return None
        if isinstance(value, list):
            lanes = len(value)
    if not lanes:
        return function(*values)
    columns = [value if isinstance(value, list) else [value] * lanes for value in values]
    made = [None if None in row else function(*row) for row in zip(*columns)]
    return made


def lane_list(value, lanes):
    return value if isinstance(value, list) else [value] * lanes


def reaches(program, goal):
    """Instructions from which `goal` can be reached."""
    before = {}
    for at in range(len(program.instructions)):
        for after in program.successors(at):
            before.setdefault(after, []).append(at)
    seen, todo = {goal}, [goal]
    while todo:
        for one in before.get(todo.pop(), ()):
            if one not in seen:
                seen.add(one)
                todo.append(one)
    return seen


def walk(program, machine, loop, most_steps=60000, most_iterations=3, every=False, others=()):
    """The trace of one iteration of the loop, after the first, or of all that were run; of the whole kernel if loop is None.
    `others`: the numbers of guesses before the loop that go the other way."""
    header = loop.header if loop else None
    towards = reaches(program, header) if loop else set()
    at = guessed = entered = 0
    current, last = [], None
    visits, most_visits = collections.Counter(), 8
    for _ in range(most_steps):
        if loop and at == header:
            if entered:
                last = [*(last or ()), *current] if every else current
                if entered == most_iterations:
                    break
            entered, current = entered + 1, []
        elif loop and entered and at not in loop.body:
            break
        instruction = program.instructions[at]
        took, addresses = machine.run(instruction)
        if not loop or entered:
            current.append((at, addresses))
        after = program.successors(at)
        if instruction.kind == "end" and (not instruction.conditional or took or (took is None and not loop)):
            break
        if instruction.kind == "branch" and instruction.conditional and len(after) == 2:
            if took is None:
                turns = guessed in others
                guessed += 1
                wanted = [a for a in after if a in (loop.body if loop and entered else towards)]
                # A search before the loop, whose end is not known, must not go on for ever: its branch goes on to the end.
                visits[at] += 1
                turns = len(wanted) == 2 and not entered and (turns or visits[at] > most_visits)
                at = wanted[1 if turns else 0] if wanted else after[0]
                # Backwards within the loop only if it leads to the loop's next iteration.
                if len(wanted) == 2 and header in wanted and entered:
                    at = header
            else:
                at = after[1] if took else after[0]
        elif instruction.kind == "end" and loop and not entered and at + 1 not in towards:
            break
        elif after:
            at = after[0]
        else:
            break
    if last is None:
        return Trace(current, guessed, whole=not loop)
    return Trace(last, guessed)


def static_trace(program, loop):
    """Every instruction of the loop once, without addresses."""
    body = loop.ordered() if loop else range(len(program.instructions))
    return Trace([(at, None) for at in body], whole=False)
