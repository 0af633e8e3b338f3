"""Reads Meson's test log and prints the closing line; fails when anything failed or nothing ran."""
import json
import re
import sys

passed = failed = skipped = 0
try:
    with open(sys.argv[1]) as log:
        for line in log:
            test = json.loads(line)
            text = (test.get("stdout") or "") + (test.get("stderr") or "")
            # A cmocka program counts its cases, a script says `N passed, N failed` itself.
            cases = re.findall(r"\[  PASSED  \] (\d+) test\(s\)", text)
            said = re.findall(r"^(\d+) passed, (\d+) failed", text, re.M)
            ok = test["result"] in ("OK", "EXPECTEDFAIL")
            if test["result"] == "SKIP":
                skipped += 1
                continue
            skipped += len(re.findall(r"^\[  SKIPPED \] [a-z]", text, re.M))
            count = int(cases[-1]) if cases else int(said[-1][0]) if said else 1
            lost = len(re.findall(r"^\[  FAILED  \] [a-z]", text, re.M))
            lost = lost or (int(said[-1][1]) if said else 0)
            passed += count if ok or cases or said else 0
            failed += 0 if ok else max(lost, 1)
except FileNotFoundError:
    print("no test log was written", file=sys.stderr)
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(1 if failed or not passed else 0)
