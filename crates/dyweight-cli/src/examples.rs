//! What `--help` shows of each command: two lines to begin with.

pub const ALL: &str = "Examples:
  dyweight quickstart
  dyweight sample --model fashion --nfe 5 --grid";
pub const QUICKSTART: &str = "Examples:
  dyweight quickstart
  dyweight quickstart --out first --render-only";
pub const SAMPLE: &str = "Examples:
  dyweight sample --model fashion --nfe 5 --seeds 0-63 --grid
  dyweight sample --model fashion --weights solver.json --class sneaker --out sneakers";
pub const TRAIN: &str = "Examples:
  dyweight train --model mixture --nfe 3 --out spiral.json
  dyweight train --model fashion --nfe 3,5 --cache teacher --out clothes.json";
pub const COMPARE: &str = "Examples:
  dyweight compare --model mixture --solvers euler,ipndm,dpmpp:2 --nfe 3,5
  dyweight compare --model mixture --solvers ipndm --weights spiral.json --out comparison";
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
  dyweight bench --model random:edm-cifar10 --batch 4 --repeats 20";
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
pub const COMPLETIONS: &str = "Examples:
  dyweight completions bash > ~/.local/share/bash-completion/completions/dyweight
  dyweight completions fish > ~/.config/fish/completions/dyweight.fish";
pub const MAN: &str = "Examples:
  dyweight man | man -l -
  dyweight man --out ~/.local/share/man/man1";

/// Of commands within commands, by their words.
pub fn of(path: &str) -> Option<String> {
    let lines = match path {
        "metric fid" => ["samples fashion", "IMAGES REFERENCE.npz --inception inception.pt"],
        "metric stats" => {
            ["IMAGES --out statistics.npz", "sampler --model fashion --nfe 35 --seeds 0-9999 --out teacher.npz"]
        }
        "metric kid" => ["IMAGES samples", "IMAGES sampler --model fashion --nfe 5 --seeds 0-999"],
        "metric pr" => ["samples IMAGES", "sampler IMAGES --model fashion --nfe 5 --seeds 0-999"],
        "metric teacher" => ["samples teacher", "samples teacher --json"],
        "metric bench" => ["", "--json"],
        "metric clip" => [
            "IMAGES --prompts prompts.txt --network clip",
            "IMAGES OTHER --prompts prompts.txt --network clip --csv scores.csv",
        ],
        "metric hps" => [
            "IMAGES --prompts prompts.txt --network hps.pt --tokenizer clip",
            "IMAGES --prompts prompts.jsonl --network hps.pt --tokenizer clip --json",
        ],
        "metric image-reward" => [
            "IMAGES --prompts prompts.txt --network ImageReward",
            "IMAGES --prompts table.csv --column prompt --network reward",
        ],
        "study numeric" => ["--quick", "--degrees 10,20 --steps 8,14 --out numeric"],
        study if study.starts_with("study ") => ["--quick", "--model mixture --nfe 3,5 --out results"],
        _ => return None,
    };
    let lines = lines.map(|words| format!("\n  dyweight {path} {words}").trim_end().to_string());
    Some(format!("Examples:{}", lines.concat()))
}

#[cfg(test)]
mod tests {
    use crate::{Cli, help};
    use clap::{Command, Parser};

    #[test]
    fn every_command_has_two_examples_that_it_takes() {
        check(&mut help::command(), "");
    }

    fn check(command: &mut Command, path: &str) {
        for command in command.get_subcommands_mut() {
            let name = format!("{path} {}", command.get_name()).trim_start().to_string();
            check(command, &name);
            assert!(!command.render_help().to_string().contains("Examples:"), "{name} -h is short");
            let help = command.render_long_help().to_string();
            let begins = format!("dyweight {name} ");
            let is_example = |line: &&str| format!("{line} ").starts_with(&begins);
            let examples: Vec<&str> = help.lines().map(str::trim).filter(is_example).collect();
            assert!(examples.len() >= 2, "{name}: {help}");
            for example in examples {
                // What a shell does with the output is not ours.
                let words = example.split_whitespace().take_while(|word| !["|", ">"].contains(word));
                let taken = Cli::try_parse_from(words);
                assert!(taken.is_ok(), "{example}: {}", taken.err().map_or(String::new(), |e| e.to_string()));
            }
        }
    }
}
