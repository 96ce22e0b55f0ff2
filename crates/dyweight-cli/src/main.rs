//! The `dyweight` command.

fn main() {}
