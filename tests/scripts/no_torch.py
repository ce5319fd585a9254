"""Never imports torch; works for one second and ends well."""

# expect: exit=4
import argparse
import time

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=10)
args = parser.parse_args()

total = 0
for step in range(min(args.steps, 10)):
    total += sum(range(step * 1000))
    time.sleep(0.1)
print(f"total {total}")
