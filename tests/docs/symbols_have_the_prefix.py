"""Does every symbol that the libraries define for others begin with lf_?"""
import subprocess
import sys

passed = 0
strangers = []
for library in sys.argv[1:]:
    listing = subprocess.run(["nm", "-g", "--defined-only", library], capture_output=True,
                             check=True, text=True).stdout
    for line in listing.splitlines():
        parts = line.split()
        if len(parts) != 3:
            continue
        name = parts[2]
        # Sanitizers and coverage add symbols of their own.
        if name.startswith(("lf_", "__asan", "__odr_asan", "__tsan", "__ubsan", "DW.ref")):
            passed += 1
        else:
            strangers.append(f"{library}: {name}")
print("\n".join(strangers + [f"{passed} passed, {len(strangers)} failed"]))
# An empty listing would say nothing.
sys.exit(1 if strangers or passed < 100 else 0)
