"""Other tools' output and engine logs become runs. Pure: text in, runs out."""
