"""The measurements of the client itself: accuracy, CPU, coverage of its intervals."""
