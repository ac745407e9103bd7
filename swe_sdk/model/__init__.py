"""Pure data: tasks, environments, patches, outcomes. No I/O here."""
