"""Every table that a command prints, in every format. Each column is described once; nothing is printed here."""
