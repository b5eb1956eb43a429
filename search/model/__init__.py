"""What a study believes about configs it has not launched, and how sure it is."""
