"""Adds generated prompts to the hand-written ones that are shipped: `python -m benchmarks.prompts.make_prompts`.

A phase at concurrency 100 wants hundreds of prompts, and cycled ones bring nothing new. These are
frames filled with subjects, numbers and made-up records: whole sentences that a person might send,
equal on every run. Hand-written lines stay where they are; generated ones have `-g` in their id.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

PROMPTS = Path(__file__).parents[2] / "search" / "load" / "data" / "prompts.jsonl"
ROUNDS = 70
LONG_EVERY = 4
"""Of the fourth kind, every so many is a long context, the others are summaries."""

PLANS = (
    "a retirement party for a colleague who hates speeches",
    "a week of camping with two small children",
    "moving a household of four to a smaller flat",
    "a street festival with one band and no budget for security",
    "learning enough Italian for a month in Bologna",
    "a vegetable garden on a north-facing slope",
    "the first winter with a new puppy",
    "a reading group in a hospital",
    "a bicycle trip along a river for people who rarely ride",
    "the sale of my late uncle's stamp collection",
    "a surprise visit to my sister abroad",
    "a school play with forty children who all want to speak",
    "giving up my car next spring",
    "a small bakery stall on the Saturday market",
)
IDEAS = (
    "why bread rises",
    "how a lock on a canal works",
    "what an interest rate does to house prices",
    "why the sky is dark at night although there are so many stars",
    "how vaccines teach the body something",
    "what a tax deduction really saves",
    "why some metals rust and others do not",
    "how a song gets stuck in the head",
    "what a neural network learns when it learns",
    "why planes can fly upside down",
    "how sourdough, yoghurt and vinegar are related",
    "what makes a bridge sing in the wind",
    "why leap years have exceptions",
    "how a refrigerator makes cold",
)
LISTENERS = (
    "a curious ten-year-old",
    "my grandmother, who was a seamstress",
    "somebody who knows physics but not this",
    "a friend over dinner, without formulas",
    "a lawyer who wants it exact",
)
PEOPLE = (
    ("the new neighbours", "the parcels that keep landing at our door"),
    ("my son's teacher", "the homework he says he never gets"),
    ("a plumber", "a repair that held for two days"),
    ("the choir", "moving the rehearsal from Tuesday to Thursday"),
    ("an old friend", "the money I lent him two years ago"),
    ("the landlady", "keeping a cat after all"),
    ("a customer", "an order that we shipped twice"),
    ("my team", "the meeting that could be a note"),
    ("the library", "a book I lost and then bought again"),
    ("a former boss", "a reference for a new job"),
    ("the swimming club", "the showers that run cold"),
    ("my cousin", "not being able to come to her wedding"),
    ("the tax office", "a letter I do not understand"),
    ("a job applicant", "a decision that we have put off"),
)
CHOICES = (
    ("an induction hob", "a gas hob", "a kitchen with old wiring"),
    ("a night train", "an early flight", "a meeting at ten in the morning in Vienna"),
    ("renting", "buying", "a stay of about five years"),
    ("a piano", "a good keyboard", "a beginner in a house with thin walls"),
    ("wool", "synthetic fill", "a blanket for somebody with allergies"),
    ("a community college", "an apprenticeship", "someone who likes machines more than books"),
    ("a heat pump", "district heating", "a house from 1962"),
    ("a road bike", "a gravel bike", "a commute of 14 km with one bad stretch"),
    ("laminate", "cork", "a nursery above a noisy cellar"),
    ("one long holiday", "three short ones", "a family that gets on each other's nerves after a week"),
    ("a paper calendar", "a shared app", "grandparents who help out twice a week"),
    ("pruning in winter", "pruning in summer", "an old apple tree that bears every other year"),
    ("contact lenses", "glasses", "a potter who is in the dust all day"),
    ("a loan from the bank", "a loan from my parents", "a van for my business"),
)
TASKS = (
    "parses a log line such as `2024-05-01T12:00:03Z WARN disk /dev/sda1 91%` into a record",
    "finds the longest common prefix of a list of strings",
    "turns a nested dictionary into flat keys joined by dots, and back",
    "rotates a square matrix by 90 degrees in place",
    "counts the islands in a grid of land and water",
    "validates an IBAN, check digits included",
    "merges two sorted lists without using a sort",
    "rounds amounts of money so that they still add up to their total",
    "retries a call with exponential back-off and a little randomness",
    "compares two version strings such as `1.10.0-rc2` and `1.9.3`",
    "splits a text into lines of at most n characters without breaking words",
    "computes the edit distance of two words and shows the edits",
    "schedules tasks with dependencies and reports cycles by name",
    "keeps the k largest elements of a stream",
    "converts Roman numerals to integers and refuses malformed ones",
    "groups anagrams together, keeping the order of first appearance",
    "serialises a binary tree to a string and restores it",
    "limits calls to n per second with a token bucket",
    "finds gaps in a list of booked time slots between 8:00 and 18:00",
    "deduplicates contacts that differ in case, spaces or accents",
    "evaluates arithmetic expressions with brackets and the usual precedence",
    "reads a CSV file with quoted fields without a library",
    "computes moving averages of irregularly spaced measurements",
    "draws a histogram in the terminal",
    "detects whether a linked list has a loop, and where it begins",
    "encodes a byte string as base64 without a library",
    "formats a duration in seconds as `2 d 03:04:05`",
    "searches a sorted array that was rotated at an unknown place",
    "watches a folder and reports files that have stopped growing",
    "picks a random line from a file too large for memory, each with equal chance",
    "checks a Sudoku for conflicts and lists all of them",
    "translates between RGB, hex and HSL colours",
    "builds an index of words to line numbers for a text",
    "simulates a vending machine as a small state machine",
    "fits a straight line to points and reports the largest residual",
)
LANGUAGES = ("Python", "Go", "TypeScript", "Rust", "Java", "C", "Ruby")
CODE_FRAMES = (
    "Write a {language} function that {task}. Add types where the language has them, and say what it costs in time.",
    "A colleague wrote a {language} function that {task}, but it fails in rare cases. List the inputs that such code "
    "usually gets wrong, then write a version that handles them, with tests.",
)
NAMES = ("Amara", "Bela", "Chiara", "Dario", "Edda", "Farid", "Greta", "Henk", "Ines", "Jonas", "Kemal", "Lotte")
PLACES = ("Westbrook", "Oldenau", "Port Selby", "Marrow Hill", "Tannfeld", "Lower Quay", "Sant Ferrer")
SUMMARY_ASKS = (
    "Summarise this in three sentences for somebody who has one minute.",
    "What was decided, what is open, and who has to do something next?",
    "Write a headline and two sentences that a local newspaper could print.",
    "List the numbers in it, each with what it measures and whether it is good or bad news.",
    "Rewrite this as a short, friendly message to people who were not there.",
)
LONG_ASKS = (
    "Read the log-book and tell in which months things went wrong, why, and what was changed because of it.",
    "From this log-book, write the annual report of the keeper: one page, with the three decisions that mattered.",
    "Which entries contradict each other? Quote them by date and say which one you would believe.",
    "Make a table of costs and repairs by date from the log-book, and add up what can be added up.",
    "A successor takes over tomorrow. Write what he must know, in order of urgency, with the dates of the entries.",
)


def maths(draw: Random, n: int) -> str:
    """One of fourteen exercises with its own numbers."""
    a, b, c = draw.randint(3, 9), draw.randint(11, 29), draw.randint(31, 79)
    return (
        f"A shop lowers a price of {c} by {b} percent and then raises it by {b} percent. What does it cost now, and "
        f"why not {c} again?",
        f"Solve {a}x^2 + {b}x - {c} = 0 and check both roots by inserting them.",
        f"How many numbers between 1 and {c * 100} are divisible by {a} or by {b}, but not by both?",
        f"A tank holds {c * 10} litres and loses {a} percent of what is in it every day. After how many days is less "
        f"than half left?",
        f"{b} people shake hands with each other once. How many handshakes are that? And if {a} of them refuse?",
        f"Find the point on the line y = {a}x - {b} that is closest to the origin, and its distance.",
        f"Differentiate f(x) = x^{a} * e^({-b}x) and find where it is largest for x > 0.",
        f"A bag holds {a} red and {b} blue balls. Three are drawn without putting any back. How likely is at least one "
        f"red one?",
        f"Write {c * a} as a product of primes, and say how many divisors it has.",
        f"The sum of {a} consecutive odd numbers is {a * (2 * b + a)}. Which numbers are they? Explain the method.",
        f"Two cars start {c * 10} km apart and drive towards each other at {b + 60} and {b + 45} km/h. Where and when do "
        f"they meet?",
        f"What is the remainder of {a}^{c} divided by {b}? Show how to get there without a calculator.",
        f"A cone has the radius {a} cm and the height {b} cm. At which height is it filled to half its volume?",
        f"Prove by induction that 1 + {a} + {a}^2 + ... + {a}^n = ({a}^(n+1) - 1) / {a - 1}, and tell for "
        f"which n the sum first exceeds {b * 1000}.",
    )[n % 14]


def chat(draw: Random, n: int) -> str:
    """A plan, an explanation, a message, a choice or a worry."""
    which = n // 5 % 14
    person, matter = PEOPLE[which]
    one, other, where = CHOICES[which]
    return (
        f"I am planning {PLANS[which]}. What should I decide first, what can wait, and what do people usually forget?",
        f"Explain {IDEAS[which]} to {draw.choice(LISTENERS)}. Use one picture from daily life and keep to it.",
        f"Write a short message to {person} about {matter}. Friendly, but it should be clear what I want.",
        f"Would you take {one} or {other} for {where}? Give me the two best arguments for each side and then decide.",
        f"I keep putting off {PLANS[(which + 5) % 14]}. Ask me four questions that help me find out why, and say what "
        f"each answer would tell you.",
    )[n % 5]


def code(_: Random, n: int) -> str:
    """A task in some language, to be written or to be repaired."""
    frame = CODE_FRAMES[n // len(TASKS) % 2]
    return frame.format(language=LANGUAGES[(3 * n + n // len(TASKS)) % 7], task=TASKS[n % len(TASKS)])


def summary(draw: Random, n: int) -> str:
    """A record of half a page: minutes, a workshop, a trial, a complaint or a count."""
    one, two, three = draw.sample(NAMES, 3)
    place = draw.choice(PLACES)
    few, some, many = draw.randint(3, 9), draw.randint(14, 48), draw.randint(120, 940)
    text = (
        f"Minutes of the allotment society {place}. Present: {one}, {two}, {three} and {some} members. {one} reports that "
        f"the water bill has risen from {many} to {many + some * 3} since the dry spring, although {few} plots stand "
        f"empty. {two} suspects the tap behind the shed, which drips. {three} asks who will pay for the new fence; the "
        f"quotation of {many * 4} is valid until the end of the month. It is agreed that {two} looks at the tap on "
        f"Saturday and that the fence is put off until a second quotation is in. The waiting list has {some} names; the "
        f"next {few} are offered the empty plots if they clear them by May.",
        f"The bicycle workshop in {place} repaired {many} bicycles this year, {some} more than last year. Most came with "
        f"worn brakes; {few} were beyond repair and became spare parts. {one}, who runs the workshop on Mondays, trained "
        f"{few} new volunteers. {two} leaves at the end of the year, and nobody else knows the accounts. The rent went up "
        f"by {some} a month in August. Donations covered it until November; since then the reserve of {many * 2} is "
        f"shrinking. {three} proposes fixed prices for the four most common repairs. The volunteers are divided, because "
        f"many of those who come have little.",
        f"Trial of a new reading scheme at the school in {place}. {some} children of the third year took part for "
        f"{few + 6} weeks. Before it, they read {many // 10 + 40} words a minute on average, after it "
        f"{many // 10 + 40 + few}. In the parallel class, which went on as before, the gain was {few - 2}. {one}, who "
        f"taught both, thinks that the extra quarter of an hour a day explains it, not the scheme. {two} points out that "
        f"the weakest readers gained most. {few} children were ill for long and are not counted. Parents liked the "
        f"books; {three} found the worksheets dull. The school board decides in June whether to buy {some} sets.",
        f"To the ferry company. On the 6 o'clock boat from {place} we were {some} passengers, most of us commuters. The "
        f"boat left {some + few} minutes late, without a word from anybody. {one}, who works at the hospital, missed the "
        f"handover; {two} missed the last bus and paid {many // 4} for a taxi. This was delay number {few} of over twenty "
        f"minutes this month. Your notice says that low water is the cause, but the gauge stood at {many} cm, and the "
        f"cargo boat left on time. {three} has kept a list, which we enclose. We ask for a timetable that you can keep, "
        f"for announcements, and for the fares of those days.",
        f"Bird count at {place}, second Sunday of January, {few} observers, light frost. {many} mallards ({some} fewer "
        f"than last year), {some} coots, {few} kingfishers, and for the first time {few - 2} great egrets. {one} saw a "
        f"harrier, but nobody else did, and it is left out. The reed bed at the east end was cut in October, earlier than "
        f"agreed with {two}; the bitterns of recent winters were not found. {three} doubts that the cut is the reason, as "
        f"none were seen at the other lakes either. The count took {few} hours. The next one needs a boat, as the path on "
        f"the north shore has slid into the water over {some} metres.",
    )[n % 5]
    return f"{SUMMARY_ASKS[(n // 5 + n) % 5]}\n\n{text}"


def long(draw: Random, n: int) -> str:
    """A keeper's log-book of a year, some six thousand characters."""
    place, keeper, helper, visitor = draw.choice(PLACES), *draw.sample(NAMES, 3)
    lines = [f"Log-book of the lock and weir at {place}, kept by {keeper}."]
    for month in range(1, 13):
        days = sorted(draw.sample(range(1, 28), 3))
        lines += [f"{day}.{month}. {_entry(draw, keeper, helper, visitor)}" for day in days]
    return f"{LONG_ASKS[n % 5]}\n\n" + "\n".join(lines)


def _entry(draw: Random, keeper: str, helper: str, visitor: str) -> str:
    level, boats, cost = draw.randint(180, 420), draw.randint(0, 23), draw.randint(40, 900)
    what = draw.choice(
        (
            f"Gate two closes slowly again. {helper} greased the chain, which helped for an hour.",
            f"{boats} boats, the last one after dark and without lights. Told the owner, who was not pleased.",
            f"The electrician from the council changed the relay of the pump for {cost}. It had been changed in spring.",
            "A tree lies across the upper basin. Two hours with the winch; the rope is worn and should be replaced.",
            f"{visitor} came to inspect the weir and wrote nothing down. A report is promised for the end of the month.",
            f"Water comes in under the door of the engine room. {helper} thinks it is the drain, I think it is the wall.",
            f"Ice at the edges in the morning. Left the lower gate open a hand's width, as {keeper} the elder always did.",
            "The school class asked better questions than the committee. One boy wanted to know where the fish sleep.",
            f"Paid {cost} for paint and brushes out of my own pocket. The receipt is in the tin.",
            "Telephone dead since the storm. Walked to the village to report the level; they had already heard.",
            f"The gauge on the left shows {level - 14} and the one on the right {level + 9}. I write down the mean.",
            f"The pump ran all night. The meter says {cost} units, which cannot be right for one night.",
            "Nobody through the lock. Mended the bench, swept the towpath, read the old log-books in the afternoon.",
            f"A letter from the insurance: they pay for the gate, but not for the chain. Answered that one is no use "
            f"without the other. Copy to {visitor}.",
        )
    )
    return f"Level {level} cm, {boats} boats. {what}"


def generated() -> Iterator[dict[str, str]]:
    """The generated lines in order: one of each kind in turn, as the hand-written ones."""
    for n in range(ROUNDS):
        fourth = ("long", long) if n % LONG_EVERY == LONG_EVERY - 1 else ("summary", summary)
        for kind, make in (("chat", chat), ("code", code), ("maths", maths), fourth):
            text = make(Random(f"{kind} {n}"), n)
            yield {"id": f"{kind}-g{n + 1:02}", "kind": kind, "prompt": text}


def complete(lines: str) -> str:
    """The hand-written lines of `lines`, then the generated ones."""
    written = [line for line in lines.splitlines() if "-g" not in json.loads(line)["id"]]
    return "".join(line + "\n" for line in (*written, *map(json.dumps, generated())))


if __name__ == "__main__":
    PROMPTS.write_text(complete(PROMPTS.read_text(encoding="utf-8")), encoding="utf-8")
