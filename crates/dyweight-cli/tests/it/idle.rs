//! Options that would change nothing, and errors under the name that was typed: every command, walked by a table.

use crate::common::Place;

/// A command, and what its refusal says.
type Case = (&'static str, &'static str);

fn refuse_all(name: &str, cases: &[Case]) {
    let place = Place::new(name);
    for (command, says) in cases {
        place.refuses(command, &says.split('|').collect::<Vec<_>>());
    }
}

#[test]
fn options_of_training_without_effect() {
    const ALL: [(&str, &str); 16] = [
        ("--huber-delta 0.1", "--huber-delta has no effect without --loss huber"),
        ("--recipe paper --loss l1 --huber-delta 0.1", "--huber-delta"),
        ("--weight-decay 0.1", "--weight-decay has no effect without --optimiser adamw"),
        ("--optimiser adam --weight-decay 0.1", "--weight-decay"),
        ("--lr-rule constant --warm-up 0.5", "--warm-up has no effect without --lr-rule warm-up"),
        ("--substeps 3", "--substeps has no effect without --supervision path"),
        ("--method ld3 --substeps 3", "--substeps"),
        ("--plain --validation 8", "--validation has no effect with --plain"),
        ("--plain --validate-every 2", "--validate-every has no effect with --plain"),
        ("--plain --patience 2", "--patience has no effect with --plain"),
        ("--method epd --teacher-denoise true", "--teacher-denoise has no effect|--method epd"),
        ("--conv direct", "--conv has no effect|closed form"),
        ("--precision bf16", "--precision"),
        ("--negative dog", "--negative has no effect without --prompts"),
        ("--teacher-nfe 0", "--teacher-nfe 0"),
        ("--teacher-order 9", "--teacher-order 9"),
    ];
    let place = Place::new("idle-train");
    for (options, says) in ALL {
        let method = if options.contains("--method epd") { 5 } else { 4 };
        let command = format!("train --model mixture --nfe {method} --out o.json --dry-run {options}");
        place.refuses(&command, &says.split('|').collect::<Vec<_>>());
    }
    // The same from a file, under the keys it has.
    place.write("c.toml", "model = \"mixture\"\nnfe = [4]\nout = \"o.json\"\nplain = true\nvalidation = 8\n");
    place.refuses("train --config c.toml --dry-run", &["--validation has no effect with --plain"]);
}

#[test]
fn options_of_comparisons_without_effect() {
    const START: &str = "compare --model mixture --nfe 3 --seeds 0-3 --out c";
    let place = Place::new("idle-compare");
    for (options, says) in [
        ("--weights preset:cifar10-nfe3 --no-search --sigma-max 10", "--sigma-max has no effect"),
        ("--weights preset:cifar10-nfe3 --no-search --schedule karras", "--schedule has no effect"),
        ("--weights preset:cifar10-nfe3 --no-search --afs", "--afs has no effect"),
        ("--solvers ipndm@karras --schedule logsnr", "--schedule has no effect"),
        ("--solvers ipndm@karras:5 --rho 7", "--rho has no effect"),
        ("--solvers ipndm+afs,euler-afs --afs", "--afs has no effect"),
        ("--solvers ipndm --count-parallel once", "--count-parallel has no effect"),
        ("--solvers ipndm --conv direct", "--conv has no effect"),
        ("--solvers ipndm --features fashion", "--features has no effect without --reference"),
        ("--solvers ipndm --resize edm", "--resize has no effect without --reference"),
        ("--solvers ipndm --negative dog", "--negative has no effect"),
        ("--solvers ipndm --teacher euler --teacher-order 3", "--teacher-order 3"),
        ("--solvers ipndm --teacher ipdnm", "unknown teacher"),
        ("--solvers ipndm --teacher-nfe 0", "--teacher-nfe 0"),
    ] {
        place.refuses(&format!("{START} {options}"), &[says]);
    }
}

#[test]
fn options_of_other_commands_without_effect() {
    refuse_all(
        "idle-others",
        &[
            ("metric fid images fashion --nfe 3", "--nfe has no effect|'sampler'"),
            ("metric fid images fashion --weights preset:cifar10-nfe3", "--weights has no effect"),
            ("metric kid images others --seeds 0-3", "--seeds has no effect"),
            ("metric pr images others --order 3", "--order has no effect"),
            ("metric kid images others --sigma-max 3", "--sigma-max has no effect"),
            ("metric kid images others --class 3", "--class has no effect"),
            ("metric kid images others --conv direct", "--conv has no effect"),
            ("metric stats images --rng torch --out s.npz", "--rng has no effect"),
            ("inspect preset:cifar10-nfe3 --precision bf16", "--precision has no effect"),
            ("inspect preset:cifar10-nfe3 --height 64", "--height has no effect"),
            ("inspect preset:cifar10-nfe3 --tokenizer x", "--tokenizer has no effect"),
            ("inspect preset:cifar10-nfe3 --nfe 3 --guidance 2", "--guidance has no effect"),
            ("export preset:cifar10-nfe3 --guidance 2", "--guidance has no effect"),
            ("convert preset:cifar10-nfe3 y.json --model-config z", "--model-config has no effect"),
            ("convert preset:cifar10-nfe3 y.json --nfe 3 --guidance 2", "--guidance has no effect"),
            ("bench --model mixture --nfe 3", "--nfe has no effect without --what train"),
            ("bench --model mixture --teacher-nfe 3", "--teacher-nfe has no effect"),
            ("bench --model mixture --memory keep", "--memory has no effect"),
            ("bench --clip random:vit-b-32 --conv direct", "--conv has no effect without --model"),
            ("sample --model mixture --nfe 3 --conv direct", "--conv has no effect"),
        ],
    );
}

#[test]
fn what_would_be_refused_is_refused_by_a_dry_run() {
    let place = Place::new("dry-refusals");
    place.works("sample --model mixture --nfe 3 --seeds 0-3 --out s --quiet");
    place.write("file", "");
    // Batches of the forecast are no larger than the run: classes are drawn for its seeds alone.
    place.works("compare --model fashion --nfe 3 --seeds 0-1 --no-search --solvers ipndm --out c --dry-run");
    for (command, says) in [
        ("sample --model mixture --nfe 4 --seeds 0-3 --out s", "other settings"),
        ("sample --model mixture --nfe 3 --seeds 0-3 --grid --out t", "not images"),
        ("sample --model mixture --nfe 99999 --seeds 0-999999 --out t", "numbers, more than"),
        ("sample --model fashion --nfe 3 --seeds 0-3 --out file/t", "cannot create file/t"),
        ("compare --model mixture --nfe 3 --seeds 0-3 --no-search --solvers ipndm --out file", "cannot create file"),
        (
            "compare --model mixture --nfe 3 --seeds 0-3 --no-search --solvers ipndm --out file/c",
            "cannot create file/c",
        ),
        ("study order --model mixture --quick --out file", "cannot create file"),
        ("train --model mixture --nfe 3 --iters 2 --cache file --out s.json", "cannot create file"),
    ] {
        place.refuses(command, &[says]);
        place.refuses(&format!("{command} --dry-run"), &[says]);
    }
}

#[test]
fn a_file_with_a_comma_in_its_name_can_be_given() {
    let place = Place::new("comma");
    place.works("convert preset:cifar10-nfe3 a,b.json --quiet");
    let start = "compare --model mixture --seeds 0-3 --teacher-nfe 9 --no-search --quiet --out";
    place.works(&format!("{start} c --weights a,b.json"));
    place.works(&format!("{start} d --weights a,b.json --weights preset:cifar10-nfe4,preset:cifar10-nfe5"));
}

/// Starters of several processes, by what they leave in the environment.
#[cfg(not(feature = "mpi"))]
#[test]
fn a_program_that_works_alone_refuses_to_be_started_several_times() {
    let place = Place::new("several");
    for sign in ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"] {
        let run = |size: &str| place.command("list solvers").env(sign, size).output().unwrap();
        let refused = run("8");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(
            said.contains(&format!("8 processes were started ({sign})")) && said.contains("--features mpi"),
            "{said}"
        );
        assert!(run("1").status.success() && run("many").status.success());
    }
}
