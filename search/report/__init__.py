"""What people and machines read: tables, a page, a summary, launch scripts, run lines."""
