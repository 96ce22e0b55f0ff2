//! What `--help` shows of each command: two lines to begin with.

pub const QUICKSTART: &str = "Examples:
  dyweight quickstart
  dyweight quickstart --out first --render-only";
pub const SAMPLE: &str = "Examples:
  dyweight sample --model fashion --nfe 5 --seeds 0-63 --grid
  dyweight sample --model fashion --weights solver.json --class sneaker --outdir sneakers";
pub const TRAIN: &str = "Examples:
  dyweight train --model mixture --nfe 3 --out spiral.json
  dyweight train --model fashion --nfe 3,5 --cache teacher --out clothes.json";
pub const COMPARE: &str = "Examples:
  dyweight compare --model mixture --solvers euler,ipndm,dpmpp:2 --nfe 3,5
  dyweight compare --model mixture --solvers ipndm --solver-file spiral.json --out comparison";
pub const STUDY: &str = "Examples:
  dyweight study main --quick
  dyweight study numeric --quick";
pub const PROBE: &str = "Examples:
  dyweight probe --model fashion --input input.safetensors --out output.safetensors
  dyweight probe --model network.pkl --input input.safetensors --out output.safetensors";
pub const METRIC: &str = "Examples:
  dyweight metric fid samples fashion
  dyweight metric teacher samples teacher";
pub const BENCH: &str = "Examples:
  dyweight bench --model fashion
  dyweight bench --model random:edm-cifar10 --batch 4";
pub const INSPECT: &str = "Examples:
  dyweight inspect solver.json
  dyweight inspect preset:sd15-nfe8 --json";
pub const CONVERT: &str = "Examples:
  dyweight convert preset:cifar10-nfe3 cifar10.json
  dyweight convert network.pkl network.safetensors";
pub const EXPORT: &str = "Examples:
  dyweight export solver.json --to sigmas
  dyweight export preset:cifar10-nfe5";
pub const LIST: &str = "Examples:
  dyweight list presets sd15
  dyweight list solvers --json";

#[cfg(test)]
mod tests {
    use crate::Cli;
    use clap::{CommandFactory, Parser};

    #[test]
    fn every_command_has_two_examples_that_it_takes() {
        for command in Cli::command().get_subcommands_mut() {
            let name = command.get_name().to_string();
            assert!(!command.render_help().to_string().contains("Examples:"), "{name} -h is short");
            let help = command.render_long_help().to_string();
            let begins = format!("dyweight {name} ");
            let is_example = |line: &&str| format!("{line} ").starts_with(&begins);
            let examples: Vec<&str> = help.lines().map(str::trim).filter(is_example).collect();
            assert!(examples.len() >= 2, "{name}: {help}");
            for example in examples {
                let taken = Cli::try_parse_from(example.split_whitespace());
                assert!(taken.is_ok(), "{example}: {}", taken.err().map_or(String::new(), |e| e.to_string()));
            }
        }
    }
}
