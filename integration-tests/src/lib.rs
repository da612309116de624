//! One promise per file, over real processes.
