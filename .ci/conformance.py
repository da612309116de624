"""Checks a report of Autobahn's fuzzing client: all cases passed, with a permitted close code."""

import collections
import json
import sys

# Subject and permitted close codes per suite, the first number of a case. Suites 1, 2, 7, 9 and 10
# check their close codes themselves.
CLOSE_CODES = {
    "3": ("reserved bits", {1002}),
    "4": ("reserved opcodes", {1002}),
    "5": ("fragments", {1000, 1002}),
    "6": ("UTF-8", {1000, 1007}),
}
ACCEPTED = {"OK", "NON-STRICT", "INFORMATIONAL"}


def main(path):
    with open(path) as report:
        (cases,) = json.load(report).values()
    faults = []
    for name, case in cases.items():
        for judged in ("behavior", "behaviorClose"):
            if case[judged] not in ACCEPTED:
                faults.append(f"{name}: {judged} is {case[judged]}")
        about, codes = CLOSE_CODES.get(name.split(".")[0], (None, None))
        if codes and case["remoteCloseCode"] not in codes:
            faults.append(f"{name} ({about}): closed with {case['remoteCloseCode']}, not {sorted(codes)}")
    counts = collections.Counter(case["behavior"] for case in cases.values())
    if faults:
        print("\n".join(faults))
    print(f"conformance: {len(cases)} cases: " + ", ".join(f"{count} {what}" for what, count in counts.most_common()))
    sys.exit(1 if faults or not cases else 0)


main(sys.argv[1])
