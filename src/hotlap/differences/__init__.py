"""What differs between two profiles, two tunings or two studies; nothing is measured again."""
