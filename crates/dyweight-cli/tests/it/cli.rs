//! The command line: what is refused how, and what goes where.

use crate::common::{Ended, Place, bytes};
use dyweight::files::TensorFile;
use serde_json::Value;
use std::process::Stdio;

#[test]
fn unknown_names_get_a_suggestion() {
    let place = Place::new("names");
    for (arguments, says) in [
        ("sample --model mixture --nfe 5 --solver ipdnm", "solver 'ipdnm'|did you mean 'ipndm'"),
        ("sample --model mixture --nfe 5 --solver zzzzzz", "solver 'zzzzzz'|hint: known: euler"),
        ("sample --model mixtur --nfe 5", "'mixtur'|did you mean 'mixture'"),
        ("sample --model random:edm-cifar11 --nfe 5", "cifar11|hint:"),
        ("sample --model mixture --nfe 5 --schedule karas", "schedule 'karas'|did you mean 'karras'"),
        ("sample --model mixture --nfe 5 --schedule discrete --beta-table sd16", "'sd16'|did you mean 'sd15'"),
        ("sample --model mixture --nfe 5 --solver unipc --variant bh3", "variant 'bh3'|did you mean"),
        ("sample --model mixture --nfe 5 --solver unipc --predict x1", "prediction 'x1'|did you mean 'x0'"),
        ("sample --model mixture --nfe 5 --rng torsh", "'torsh'|did you mean 'torch'"),
        ("sample --model mixture --nfe 5 --conv winograd3", "'winograd3'|did you mean 'winograd"),
        ("sample --model mixture --weights preset:cifar10-nfe33", "preset 'cifar10-nfe33'|did you mean 'cifar10-nfe3'"),
        ("convert preset:cifar10-nfe33 a.json", "preset 'cifar10-nfe33'|did you mean 'cifar10-nfe3'"),
        ("train --model mixture --nfe 3 --out a.json --loss l3", "loss 'l3'|did you mean"),
        ("train --model mixture --nfe 3 --out a.json --init eulr", "initialisation 'eulr'|did you mean 'euler'"),
        ("train --model mixture --nfe 3 --out a.json --teacher hewn", "teacher 'hewn'|did you mean 'heun'"),
        (
            "train --model mixture --nfe 3 --out a.json --optimiser adan",
            "'adan'|--optimiser|similar value exists: 'adam'",
        ),
        (
            "train --model mixture --nfe 3 --out a.json --optimiser newton --loss l1",
            "newton|the loss l1|another --loss",
        ),
        (
            "train --model mixture --nfe 3 --out a.json --optimiser newton --clip-gradient 2",
            "newton|--clip-gradient|leave --clip-gradient out",
        ),
        ("train --model mixture --nfe 3 --out a.json --optimiser newton --method dlms", "newton|2048|9013"),
        ("train --model mixture --nfe 5 --out a.json --optimiser newton --method epd", "newton|epd|step by step"),
        ("train --model mixture --nfe 3 --out a.json --scale fre", "'fre'|--scale|similar value exists: 'free'"),
        ("train --model mixture --nfe 3 --out a.json --memory kep", "'kep'|--memory|similar value exists: 'keep'"),
        ("train --model mixture --nfe 3 --out a.json --supervision pth", "supervision 'pth'|did you mean 'path'"),
        ("list model", "model|models"),
        ("sampel --model mixture", "sampel|sample"),
        ("sample --model mixture --nfe 5 --shcedule karras", "--shcedule|--schedule"),
    ] {
        place.refuses(arguments, &says.split('|').collect::<Vec<_>>());
    }
}

#[test]
fn numbers_out_of_range_are_named() {
    let place = Place::new("numbers");
    let sample = "sample --model mixture";
    let train = "train --model mixture --nfe 3 --out a.json";
    for (arguments, says) in [
        (format!("{sample} --nfe 0"), "--nfe 0|1"),
        (format!("{sample} --steps 0"), "--steps 0|1"),
        (format!("{sample} --nfe 1000000"), "--nfe 1000000|100000"),
        (format!("{sample} --nfe abc"), "'abc'|--nfe"),
        (format!("{sample} --nfe 5 --order 9"), "--order 9|orders 1 to 4"),
        (format!("{sample} --nfe 5 --order 0"), "--order 0|orders 1 to 4"),
        (format!("{sample} --nfe 5 --solver dpmpp --order 4"), "--order 4|orders 1 to 3"),
        (format!("{sample} --nfe 5 --solver euler --order 2"), "--order 2|no choice of order"),
        (format!("{sample} --nfe 4 --solver dpm2 --r 1.5"), "--r 1.5|between 0 and 1"),
        (format!("{sample} --nfe 5 --batch 0 --outdir d"), "--batch 0|at least one"),
        (format!("{sample} --nfe 5 --threads 0"), "--threads 0|1024"),
        (format!("{sample} --nfe 5 --threads 100000"), "--threads 100000|1024"),
        (format!("{sample} --nfe 5 --rho 0"), "--rho 0|between"),
        (format!("{sample} --nfe 5 --rho nan"), "--rho NaN|between"),
        (format!("{sample} --nfe 5 --sigma-min 5 --sigma-max 2"), "--sigma-max 2|--sigma-min 5"),
        (format!("{sample} --nfe 5 --sigma-min 2 --sigma-max 2"), "--sigma-max 2|--sigma-min 2"),
        (format!("{sample} --nfe 5 --sigma-min -1"), "--sigma-min -1|above 0"),
        (format!("{sample} --nfe 5 --sigma-max inf"), "--sigma-max inf|finite"),
        (
            format!("{sample} --nfe 5 --schedule time-uniform --sigma-min 0.3 --sigma-max 2"),
            "--sigma-min 0.3|--sigma-max 2",
        ),
        (format!("{sample} --sigmas 1,2,3"), "sigma[0] = 1 is followed by 2"),
        (format!("{sample} --sigmas 3,2,2"), "sigma[1] = 2 is followed by 2"),
        (format!("{sample} --sigmas 3,nan,1"), "sigmas|NaN|index 1"),
        (format!("{sample} --sigmas 3,2,-1"), "--sigmas -1|negative"),
        (format!("{sample} --sigmas 3"), "sigmas|at least two"),
        (format!("{sample} --schedule explicit --steps 3"), "sigmas|at least two"),
        (format!("{sample} --sigmas 3,2,1 --steps 5"), "--steps 5|3 sigmas make 2 steps"),
        (format!("{sample} --nfe 5 --seeds 3-1"), "--seeds 3-1|backwards"),
        (format!("{sample} --nfe 5 --seeds many"), "--seeds many|0-63"),
        (format!("{sample} --nfe 5 --seeds 1,,2"), "--seeds 1,,2|0-63"),
        (format!("{sample} --nfe 5 --seeds 0-99999999999"), "--seeds 0-99999999999|100 million"),
        (format!("{sample} --nfe 5 --seeds 3,3"), "--seeds 3,3|seed 3 is named more than once"),
        ("compare --model mixture --solvers euler --nfe 3 --seeds 0-99,0-99".into(), "seed 0 is named more than once"),
        ("metric fid sampler fashion --model fashion --nfe 3 --seeds 5-9,0-99".into(), "seed 5 is named"),
        (format!("{sample} --nfe 5 --sigma-max 1e-300"), "--sigma-max 1e-300: must"),
        (format!("{sample} --nfe 5 --shift 1e300"), "shift|hint"),
        (format!("{sample} --nfe 5 --shape 3,4"), "--shape 3,4|channels,height,width"),
        (format!("{sample} --nfe 5 --shape 3,4,4"), "[3, 4, 4]|2 dimensions|48"),
        (format!("{train} --iters 0"), "--iters 0"),
        (format!("{train} --batch 0"), "--batch 0"),
        (format!("{train} --micro-batch 0"), "--micro-batch 0"),
        (format!("{train} --accumulate 0"), "--accumulate 0"),
        (format!("{train} --validation 0"), "--validation 0"),
        (format!("{train} --patience 0"), "--patience 0"),
        (format!("{train} --order 0"), "--order 0|1 or more"),
        (format!("{train} --lr 0"), "--lr 0|above 0"),
        (format!("{train} --lr nan"), "--lr NaN|finite"),
        (format!("{train} --clip-gradient inf"), "--clip-gradient inf|finite"),
        (format!("{train} --weight-decay nan"), "--weight-decay NaN|finite"),
        (format!("{train} --warm-up 1.5"), "--warm-up 1.5|between 0 and 1"),
        (format!("{train} --loss huber --huber-delta 0"), "--huber-delta 0|above 0"),
        (format!("{train} --seed 18446744073709551615"), "--seed 18446744073709551615|at most"),
        (format!("{train} --snapshot-seconds nan"), "--snapshot-seconds NaN"),
        (format!("{train} --teacher-order 5"), "--teacher-order 5|orders 1 to 4"),
        ("train --model mixture --nfe 3,0 --out a.json".into(), "--nfe 0"),
    ] {
        place.refuses(&arguments, &says.split('|').collect::<Vec<_>>());
    }
}

#[test]
fn options_that_do_not_go_together_come_with_a_hint() {
    let place = Place::new("conflicts");
    let train = "train --model mixture --nfe 3 --out a.json";
    for (arguments, says) in [
        ("sample --model mixture".into(), "how many steps?|hint: give --nfe"),
        ("sample --model mixture --solver dyweight --steps 3".into(), "dyweight|hint: give --weights"),
        ("sample --model mixture --nfe 5 --solver euler --r 0.3".into(), "--r has no effect|hint: leave --r out"),
        ("sample --model mixture --nfe 5 --solver ipndm --variant bh1".into(), "--variant has no effect|hint:"),
        ("sample --model mixture --nfe 5 --solver heun --predict eps".into(), "--predict has no effect|hint:"),
        (
            "sample --model fashion --nfe 5 --config c.json".into(),
            "'fashion' is built in|c.json|hint: leave the configuration",
        ),
        ("sample --model mixture --nfe 5 --shift 3".into(), "shift|hint: leave --shift out"),
        ("sample --model mixture --nfe 5 --schedule flow".into(), "flow|denoised samples|hint: leave --schedule out"),
        ("compare --model mixture --solvers euler@flow --nfe 5 --seeds 0-9".into(), "flow|denoised samples"),
        (format!("{train} --schedule flow"), "flow|denoised samples"),
        ("sample --model mixture --sigmas 3,2,1 --schedule karras".into(), "sigmas|hint: leave --sigmas out"),
        ("sample --model mixture --sigmas 3,2,1 --sigma-max 4".into(), "sigma-max|hint: leave --sigma-max out"),
        ("sample --model mixture-flow --nfe 5 --denoise-to-zero".into(), "denoise-to-zero|hint:"),
        (
            "sample --model mixture-flow --nfe 5 --schedule karras".into(),
            "a flow ends at level 0, the schedule karras above it|hint: leave --schedule out, or say with --sigma-min",
        ),
        (
            "sample --model mixture --weights preset:cifar10-nfe3 --solver euler".into(),
            "not to euler|hint: leave --weights",
        ),
        ("sample --model mixture --weights preset:cifar10-nfe3 --order 3".into(), "--order 3|window"),
        ("sample --model mixture --weights preset:cifar10-nfe3 --strict".into(), "--strict|'cifar10'|hint:"),
        ("train".into(), "which model?|hint: give --model"),
        ("train --model mixture".into(), "budget|hint: give --nfe"),
        ("train --model mixture --out a.json".into(), "budget|hint: give --nfe"),
        (format!("{train} --steps 4"), "--nfe|--steps"),
        (format!("{train} --loss features"), "1x28x28|hint: use features of Inception"),
        (format!("{train} --loss inception"), "need its weights|hint: give them with --inception"),
        (
            format!("{train} --inception a.pt"),
            "--inception has no effect without --loss inception|hint: add --loss inception",
        ),
        (format!("{train} --loss features --resize edm"), "--resize has no effect|hint: add --loss inception"),
        (format!("{train} --loss inception --inception a.pt --resize edn"), "'edn'|hint: did you mean 'edm'"),
        ("bench".into(), "which model?|hint: give --model NAME"),
        ("bench --model mixture --inception a.pt".into(), "--model|--inception"),
        (format!("{train} --teacher dyweight"), "dyweight|hint:"),
        (format!("{train} --teacher-nfe 20 --teacher-steps 5"), "teacher-nfe|hint: give one"),
        (format!("{train} --supervision path --teacher-nfe 20"), "path supervision|hint:"),
        (format!("{train} --class 1"), "class"),
        (format!("{train} --resume --overwrite"), "--resume|--overwrite"),
        (format!("{train} --resume --trace t.safetensors"), "--resume|--trace"),
    ] {
        place.refuses(&arguments, &says.split('|').collect::<Vec<_>>());
    }
}

#[test]
fn budgets_no_grid_can_meet_name_their_neighbours() {
    let place = Place::new("budgets");
    place.tensors("w.safetensors", &[("weights", &[2, 2], &[1.0, 0.0, -0.5, 1.5])]);
    for (arguments, near) in [
        ("--nfe 4 --solver heun --afs", "3, 5"),
        ("--nfe 4 --solver heun --denoise-to-zero", "3, 5"),
        ("--nfe 5 --solver dpm2", "4, 6"),
        ("--nfe 7 --sigmas 3,2,1", "2"),
    ] {
        let hint = format!("hint: possible budgets nearby: {near}\n");
        place.refuses(&format!("sample --model mixture {arguments}"), &["no grid lets", &hint]);
    }
    for (weights, calls) in [("preset:cifar10-nfe3", 3), ("w.safetensors", 2)] {
        let says = format!("'{weights}' is for {calls} calls, not 5");
        place
            .refuses(&format!("sample --model mixture --nfe 5 --weights {weights}"), &[&says, "hint: leave --nfe out"]);
    }
    let train = "train --model mixture --nfe 3 --out a.json --teacher heun --teacher-nfe 4";
    place.refuses(train, &["heun", "4", "hint: possible budgets nearby: 3, 5"]);
    place.refuses("sample --model mixture --steps 3 --weights w.safetensors", &["weights", "[3]", "[2]"]);
}

#[test]
fn tensors_of_the_wrong_shape_or_with_wrong_numbers_are_named() {
    let place = Place::new("tensors");
    let nan = f64::NAN;
    place.tensors("nan.safetensors", &[("latents", &[1, 2, 1, 1], &[0.5, nan])]);
    place.tensors("inf.safetensors", &[("latents", &[1, 2, 1, 1], &[f64::NEG_INFINITY, 0.0])]);
    place.tensors("rank.safetensors", &[("latents", &[2, 2], &[1.0, 2.0, 3.0, 4.0])]);
    place.tensors("none.safetensors", &[("latents", &[0, 2, 1, 1], &[])]);
    place.tensors("three.safetensors", &[("latents", &[1, 3, 1, 1], &[1.0, 2.0, 3.0])]);
    place.tensors("other.safetensors", &[("noise", &[1, 2, 1, 1], &[1.0, 2.0])]);
    for (name, says) in [
        ("nan", "nan.safetensors|NaN at index 1"),
        ("inf", "inf.safetensors|-inf at index 0"),
        ("rank", "rank.safetensors|[2, 2]"),
        ("none", "none.safetensors|[0, 2, 1, 1]"),
        ("three", "2 dimensions|[3, 1, 1]"),
        ("other", "other.safetensors|'latents' is missing"),
    ] {
        let arguments = format!("sample --model mixture --steps 3 --latents {name}.safetensors --outdir d");
        place.refuses(&arguments, &says.split('|').collect::<Vec<_>>());
    }
    place.tensors("w32.safetensors", &[("weights", &[3, 2], &[1.0; 6])]);
    place.tensors("w1.safetensors", &[("weights", &[2], &[1.0; 2])]);
    place.tensors("future.safetensors", &[("weights", &[2, 2], &[1.0, 2.0, 0.0, 1.0])]);
    place.tensors("wnan.safetensors", &[("weights", &[2, 2], &[1.0, 0.0, nan, 1.0])]);
    let good: (&str, &[usize], &[f64]) = ("weights", &[2, 2], &[1.0, 0.0, -0.5, 1.5]);
    place.tensors("long.safetensors", &[good, ("time_scale", &[5], &[1.0; 5])]);
    place.tensors("flat.safetensors", &[good, ("time_scale", &[2, 1], &[1.0; 2])]);
    for (name, says) in [
        ("w32", "w32.safetensors|[3, 2]"),
        ("w1", "w1.safetensors|[2]"),
        ("future", "future.safetensors|weights[0][1] = 2"),
        ("wnan", "wnan.safetensors|weights|NaN at index 1"),
        ("long", "long.safetensors|time_scale|[2]|[5]"),
        ("flat", "flat.safetensors|[2, 1]"),
        ("other", "other.safetensors|'weights' is missing"),
    ] {
        let arguments = format!("sample --model mixture --weights {name}.safetensors --outdir d");
        place.refuses(&arguments, &says.split('|').collect::<Vec<_>>());
    }
    place.tensors("noise.safetensors", &[("noise", &[2, 4, 2, 1, 1], &[0.1; 16])]);
    place.tensors("noise-nan.safetensors", &[("noise", &[1, 1, 2, 1, 1], &[0.1, nan])]);
    let train = "train --model mixture --nfe 3 --out a.json --plain";
    for (arguments, says) in [
        ("--noise noise.safetensors --iters 3 --batch 4", "noise.safetensors|[3, 4, 2, 1, 1]|[2, 4, 2, 1, 1]"),
        ("--noise noise.safetensors --iters 2 --batch 3", "noise.safetensors|[2, 3, 2, 1, 1]"),
        ("--noise noise-nan.safetensors --iters 1 --batch 1", "noise-nan.safetensors|NaN at index 1"),
        ("--noise w1.safetensors", "w1.safetensors|'noise' is missing"),
        ("--init wnan.safetensors", "wnan.safetensors"),
        ("--init long.safetensors", "long.safetensors|[2]|[5]"),
    ] {
        place.refuses(&format!("{train} {arguments}"), &says.split('|').collect::<Vec<_>>());
    }
}

/// A pickle that calls `os.system` when Python loads it.
fn hostile_pickle(command: &str) -> Vec<u8> {
    let argument = [&[0x8c, command.len() as u8], command.as_bytes()].concat();
    [b"\x80\x04\x8c\x05posix\x8c\x06system\x93".as_slice(), &argument, b"\x85R."].concat()
}

#[test]
fn damaged_and_hostile_files_are_refused_by_every_command() {
    let place = Place::new("hostile");
    place.tensors("good.safetensors", &[("latents", &[2, 2, 1, 1], &[1.0, 2.0, 3.0, 4.0])]);
    let good = bytes(&place.path("good.safetensors"));
    place.works("convert preset:cifar10-nfe3 good.json");
    let solver = String::from_utf8(bytes(&place.path("good.json"))).unwrap();
    place.write("cut.safetensors", &good[..good.len() - 5]);
    place.write("header.safetensors", &good[..20]);
    place.write("huge.safetensors", [&(1u64 << 60).to_le_bytes()[..], b"{}"].concat());
    place.write("empty", "");
    place.write("deep.json", "[".repeat(200_000));
    place.write("cut.json", &solver[..solver.len() / 2]);
    place.write("nan.json", solver.replacen("1.07", "NaN", 1));
    place.write("large.json", solver.replacen("1.07", "1e999", 1));
    place.write("steps.json", solver.replacen("\"steps\": 4", "\"steps\": 400000000", 1));
    place.write("newer.json", solver.replacen("\"version\": 2", "\"version\": 7", 1));
    place.write("hostile.pkl", hostile_pickle("touch EXECUTED"));
    let all = [
        "cut.safetensors",
        "header.safetensors",
        "huge.safetensors",
        "empty",
        "deep.json",
        "cut.json",
        "nan.json",
        "large.json",
        "steps.json",
        "newer.json",
        "hostile.pkl",
        "missing.json",
    ];
    for name in all {
        let commands = [
            format!("inspect {name}"),
            format!("inspect {name} --json"),
            format!("convert {name} out.json"),
            format!("sample --model mixture --steps 3 --latents {name} --outdir d"),
            format!("sample --model mixture --weights {name} --outdir d"),
            format!("sample --model {name} --steps 3 --outdir d"),
            format!("train --model {name} --nfe 3 --out a.json"),
            format!("train --model mixture --nfe 3 --out a.json --init {name}"),
            format!("train --model mixture --nfe 3 --out a.json --noise {name}"),
            format!("train --out a.json --config {name}"),
        ];
        // An empty configuration says nothing wrong; it merely says nothing.
        for arguments in commands.iter().filter(|c| !(name == "empty" && c.contains("--config"))) {
            place.refuses(arguments, &[name]);
        }
    }
    for (name, says) in [
        ("inspect hostile.pkl", "'posix.system'|hint: nothing was executed"),
        ("sample --model hostile.pkl --steps 3", "'posix.system'|hint: nothing was executed"),
        ("inspect header.safetensors", "truncated|more bytes|hint:"),
        ("inspect newer.json", "version 7"),
        ("inspect steps.json", "4 rows|400000000 steps"),
    ] {
        place.refuses(name, &says.split('|').collect::<Vec<_>>());
    }
    assert!(!place.path("EXECUTED").exists());
}

#[test]
fn configurations_say_what_is_wrong_with_them() {
    let place = Place::new("config");
    for (name, text, says) in [
        ("key.toml", "model = \"mixture\"\nnfs = [3]\n", "nfs"),
        ("type.toml", "model = \"mixture\"\nlr = \"high\"\n", "high"),
        ("list.toml", "model = \"mixture\"\nnfe = 3\n", "sequence"),
        ("nan.toml", "model = \"mixture\"\nnfe = [3]\nlr = nan\n", "lr = NaN"),
        ("name.toml", "model = \"mixture\"\nnfe = [3]\noptimiser = \"sdg\"\n", "optimiser"),
        ("syntax.toml", "model = [\n", ""),
        ("own.toml", "model = \"mixture\"\nnfe = [3]\nresume = true\n", "resume"),
    ] {
        place.write(name, text);
        place.refuses(&format!("train --config {name} --out a.json"), &[says]);
    }
    place.refuses("train --config type.toml --out a.json", &["type.toml"]);
    place.refuses("train --config missing.toml --out a.json", &["cannot read missing.toml"]);
}

/// Every flag has a key, flags win, and the resolved configuration repeats the run.
#[test]
fn a_written_configuration_repeats_the_run() {
    let place = Place::new("repeat");
    place.write("c.toml", "model = \"mixture\"\nnfe = [3]\niters = 9\nbatch = 4\nseed = 3\nvalidation = 8\n");
    let ended = place.works("train --config c.toml --iters 5 --out a.json --json");
    let facts = ended.json();
    assert_eq!((&facts["iterations"], &facts["nfe"]), (&Value::from(5), &Value::from(3)));
    let (solver, log) = (bytes(&place.path("a.json")), bytes(&place.path("a.stats.jsonl")));
    place.works("train --config a.config.toml --overwrite");
    assert_eq!(bytes(&place.path("a.json")), solver);
    assert_eq!(bytes(&place.path("a.stats.jsonl")), log);
    assert!(!place.path("a.state").exists());
    for line in String::from_utf8(log).unwrap().lines() {
        assert!(serde_json::from_str::<Value>(line).unwrap()["loss"].is_number());
    }
    let sampled = place.works("sample --model mixture --weights a.json --strict --json").json();
    assert_eq!(sampled["nfe"], 3);
    let other: [(&str, &[usize], &[f64]); 3] = [
        ("model.mu", &[2, 2], &[1.0, 0.0, 0.0, 1.0]),
        ("model.std", &[2], &[0.1; 2]),
        ("model.weight", &[2], &[0.5; 2]),
    ];
    place.tensors("other.safetensors", &other);
    let foreign = "sample --model other.safetensors --shape 2,1,1 --weights a.json";
    place.refuses(&format!("{foreign} --strict"), &["--strict", "'mixture'", "'other.safetensors'", "hint:"]);
    assert!(place.works(foreign).stderr.contains("warning: the solver was learned"));
    place.refuses("sample --model mixture --weights a.json --strict --rho 3", &["--strict", "grid", "hint:"]);
}

#[test]
fn samples_go_to_files_and_only_data_to_stdout() {
    let place = Place::new("sample");
    let quiet = place.works("sample --model mixture --nfe 4 --seeds 0-4");
    assert!(quiet.stdout.starts_with("samples/samples.safetensors\n"), "{quiet:?}");
    assert!(quiet.stderr.contains("5 samples of mixture with ipndm(4): 4 calls each"), "{quiet:?}");
    let facts = place.works("sample --model mixture --nfe 5 --solver heun --afs --json --seeds 0-4").json();
    assert_eq!((&facts["nfe"], &facts["steps"], &facts["samples"]), (&5.into(), &3.into(), &5.into()));
    assert_eq!(facts["sigmas"].as_array().unwrap().len(), 4);
    let files = place.works("sample --model mixture --steps 3 --denoise-to-zero --trajectory t.safetensors --outdir d");
    assert!(files.stdout.lines().count() >= 2, "{files:?}");
    for file in files.stdout.lines() {
        assert!(place.path(file).exists(), "{file}");
    }
    let trajectory = TensorFile::read(&place.path("t.safetensors")).unwrap();
    assert_eq!(trajectory.tensor("trajectory").unwrap().shape(), [5, 16, 2, 1, 1]);
    assert_eq!(trajectory.tensor("sigmas").unwrap().shape(), [4]);
    assert_eq!(trajectory.metadata["nfe"], "4");
    for shift in [0.08, 0.2, 0.41, 1.15, 3.0] {
        place.works(&format!("sample --model mixture-flow --nfe 4 --shift {shift}"));
    }
    for schedule in ["karras", "logsnr", "time-uniform"] {
        place.works(&format!("sample --model mixture --nfe 4 --schedule {schedule}"));
    }
    let warned = place.works("sample --model mixture --weights preset:cifar10-nfe3");
    assert!(warned.stderr.contains("warning: ") && !warned.stdout.contains("warning"), "{warned:?}");
}

#[test]
fn batches_and_threads_change_no_byte_of_a_trajectory() {
    let place = Place::new("split");
    let common = "sample --model mixture --nfe 5 --solver unipc --seeds 0-10 --rng torch --trajectory";
    place.works(&format!("{common} whole.safetensors --threads 1"));
    let whole = bytes(&place.path("whole.safetensors"));
    for (i, options) in ["--batch 1 --threads 2", "--batch 3 --threads 1", "--batch 4 --threads 3"].iter().enumerate() {
        place.works(&format!("{common} {i}.safetensors {options}"));
        assert_eq!(bytes(&place.path(&format!("{i}.safetensors"))), whole, "{options}");
    }
}

#[test]
fn lists_are_tables_and_json() {
    let place = Place::new("list");
    for (what, name) in
        [("models", "mixture"), ("solvers", "ipndm-v"), ("schedules", "karras"), ("presets", "cifar10-nfe3")]
    {
        let table = place.works(&format!("list {what}"));
        assert!(table.stdout.lines().any(|l| l.starts_with(name)), "{table:?}");
        let json = place.works(&format!("list {what} --json")).json();
        let rows = json.as_array().unwrap();
        assert_eq!(rows.len() + 1, table.stdout.lines().count());
        assert!(rows.iter().any(|r| r.as_object().unwrap().values().any(|v| v == name)), "{json}");
    }
    assert_eq!(place.works("list presets --json").json().as_array().unwrap().len(), 43 + 32);
}

#[test]
fn converted_presets_are_solver_files_that_inspect_explains() {
    let place = Place::new("convert");
    let converted = place.works("convert preset:cifar10-nfe3 a.json");
    assert!(converted.stdout.is_empty() && converted.stderr.contains("4 steps, 3 calls, window 3"), "{converted:?}");
    let text = place.works("inspect a.json");
    assert!(text.stdout.contains("12.67446") && text.stdout.contains("3 calls, 4 steps"), "{text:?}");
    let json = place.works("inspect a.json --json").json();
    assert_eq!(json["format"], "a solver file");
    place.works("convert a.json b.json");
    assert_eq!(bytes(&place.path("a.json")), bytes(&place.path("b.json")));
    let by_file = "sample --model mixture --weights a.json --trajectory a.safetensors";
    let by_name = "sample --model mixture --weights preset:cifar10-nfe3 --trajectory b.safetensors";
    place.works(by_file);
    place.works(by_name);
    let states = |name: &str| TensorFile::read(&place.path(name)).unwrap().tensors["trajectory"].clone();
    assert_eq!(states("a.safetensors"), states("b.safetensors"));
    let tensors = place.works("inspect a.safetensors");
    assert!(tensors.stdout.contains("trajectory  F64    [5, 16, 2, 1, 1]"), "{tensors:?}");
}

#[test]
fn help_names_every_flag() {
    let place = Place::new("help");
    let flags = |command: &str, names: &str| {
        let help = place.works(&format!("{command} --help")).stdout;
        for name in names.split_whitespace() {
            let found = help.split(|c: char| !(c.is_alphanumeric() || c == '-')).any(|w| w == format!("--{name}"));
            assert!(found, "{command} --help does not mention --{name}");
        }
        assert!(!help.contains("--snapshot-seconds"), "a flag for tests is shown");
    };
    let grid = "schedule rho sigma-min sigma-max sigmas";
    flags("sample", grid);
    flags("sample", "model shape conv solver order predict lower-order-final variant r afs denoise-to-zero nfe steps");
    flags("sample", "seeds rng batch threads out latents trajectory weights strict json class guidance");
    flags("train", grid);
    flags("train", "model nfe steps out afs order init no-time-shift no-time-scale teacher teacher-nfe teacher-steps");
    flags("train", "teacher-order loss lr batch iters accumulate cache patience noise trace plain config resume json");
    flags("inspect", "json");
    flags("convert", "model-config");
    flags("list", "json");
    let all = place.works("--help").stdout;
    for command in ["sample", "train", "inspect", "convert", "list", "probe", "bench"] {
        assert!(all.contains(command), "{command}");
    }
    assert!(place.works("--version").stdout.starts_with("dyweight "));
    assert_eq!(place.run("").code, Some(2));
}

/// A reader that goes away, as `| head -1` does, is not an error of ours.
#[test]
fn a_closed_stdout_is_no_panic() {
    let place = Place::new("closed");
    for arguments in ["list presets", "sample --model mixture --steps 3 --json", "inspect a.json"] {
        place.works("convert preset:cifar10-nfe3 a.json --overwrite");
        let mut child = place.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ended = Ended::of(arguments, child.wait_with_output().unwrap());
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
}
