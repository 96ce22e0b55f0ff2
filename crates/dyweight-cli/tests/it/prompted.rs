//! Scores of images and their prompts: numbers of the published tools, every way to pair, what is refused, and scores
//! as measures and as a loss. `tools/make_textmetric_fixtures.py` made the data.

use crate::common::Place;
use dyweight::files::image::Image;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../dyweight-models/tests/data/prompted")
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        std::fs::copy(from, to).unwrap();
    }
}

/// The data in a place of its own, with its prompts as lines.
fn place(name: &str) -> (Place, Value) {
    let place = Place::new(name);
    copy(&data(), &place.0);
    let expected: Value = serde_json::from_slice(&std::fs::read(data().join("expected.json")).unwrap()).unwrap();
    let lines: Vec<&str> = expected["prompts"].as_array().unwrap().iter().map(|p| p.as_str().unwrap().trim()).collect();
    place.write("p.txt", lines.join("\n"));
    (place, expected)
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

#[test]
fn scores_of_the_published_tools() {
    let (place, expected) = place("prompted-scores");
    for (arguments, name, tolerance) in [
        ("clip images --network clip", "clip_pil", 1e-4),
        ("clip images --network clip/model.safetensors --preprocess pil --batch 1 --threads 1", "clip_pil", 1e-4),
        ("clip images --network clip --preprocess tv", "clip_tv", 1e-4),
        ("clip images --network open_clip --tokenizer clip", "open_clip_pil", 1e-4),
        ("hps images --network open_clip/epoch_1.pt --tokenizer clip/", "hps_float", 2e-5),
        ("hps images --network open_clip --tokenizer clip --preprocess float-noaa", "hps_float-noaa", 2e-5),
        ("image-reward images --network image_reward", "image_reward_pil", 1e-5),
        (
            "image-reward images --network image_reward/ImageReward.pt --tokenizer image_reward/vocab.txt",
            "image_reward_pil",
            1e-5,
        ),
    ] {
        let ended = place.works(&format!("metric {arguments} --prompts p.txt --json"));
        let (found, wanted) = (numbers(&ended.json()["values"]), numbers(&expected[name]));
        assert_eq!(found.len(), wanted.len());
        for (a, b) in found.iter().zip(&wanted) {
            assert!((a - b).abs() < tolerance, "{arguments}: {found:?} {wanted:?}");
        }
        assert!(ended.stderr.contains("1 of 4 prompts are longer"), "{ended:?}");
        let mean = wanted.iter().sum::<f64>() / 4.0;
        assert!((ended.json()["mean"].as_f64().unwrap() - mean).abs() < tolerance);
    }
}

#[test]
fn batches_and_threads_change_nothing() {
    let (place, _) = place("prompted-bits");
    for metric in ["clip images --network clip", "image-reward images --network image_reward"] {
        let of = |more: &str| {
            place.works(&format!("metric {metric} --prompts p.txt --json {more}")).json()["values"].clone()
        };
        let first = of("");
        assert!(["--batch 1", "--batch 3 --threads 1", "--threads 3"].iter().all(|more| of(more) == first));
    }
}

#[test]
fn pairs_differences_and_tables() {
    let (place, _) = place("prompted-pairs");
    copy(&place.path("images"), &place.path("others"));
    std::fs::copy(place.path("images/000.png"), place.path("others/003.png")).unwrap();
    let ended = place.works("metric clip images others --network clip --prompts p.txt --json --csv v.csv --out r.json");
    let facts = ended.json();
    let (a, b) = (numbers(&facts["values"]), numbers(&facts["second"]["values"]));
    let differences = numbers(&facts["difference"]["values"]);
    assert_eq!((a[..3].to_vec(), differences[..3].to_vec()), (b[..3].to_vec(), vec![0.0; 3]));
    assert!((differences[3] - (a[3] - b[3])).abs() < 1e-12 && differences[3] != 0.0);
    // One of four differs: the error of the mean difference is its own mean.
    let (mean, error) = (&facts["difference"]["value"], &facts["difference"]["error"]);
    assert!((mean.as_f64().unwrap().abs() - error.as_f64().unwrap()).abs() < 1e-9);
    let table = std::fs::read_to_string(place.path("v.csv")).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!((lines.len(), lines[0]), (5, "image,prompt,clip,second,difference"));
    assert!(lines[2].starts_with("001.png,\"The CAT's hat, at 2!\","), "{table}");
    assert_eq!(lines[1].split(',').nth(2).unwrap().parse::<f64>().unwrap(), a[0]);
    assert!(place.works("metric clip images others --network clip --prompts p.txt").stdout.contains("difference"));

    // One prompt for two images each, by order and by name.
    place.write("two.txt", "a cat\n\nthe hat\n");
    place.refuses("metric clip images --network clip --prompts two.txt", &["4 images", "2 prompts", "--pair cycle"]);
    let cycle = place.works("metric clip images --network clip --prompts two.txt --pair cycle --json").json();
    place.write(
        "four.jsonl",
        "{\"prompt\":\"a cat\"}\n{\"prompt\":\"the hat\"}\n{\"prompt\":\"a cat\"}\n{\"prompt\":\"the hat\"}",
    );
    place.write("four.csv", "id,text\n1,a cat\n2,\"the hat\"\n3,a cat\n4,the hat\n");
    for list in ["four.jsonl", "four.csv --column text"] {
        let same = place.works(&format!("metric clip images --network clip --prompts {list} --json")).json();
        assert_eq!(same["values"], cycle["values"], "{list}");
    }
    for (i, name) in ["000000_00", "000001_00", "000000_01", "000001_01"].iter().enumerate() {
        copy(&place.path("images").join(format!("{i:03}.png")), &place.path(&format!("{name}.png")));
    }
    std::fs::create_dir(place.path("named")).unwrap();
    for name in ["000000_00", "000001_00", "000000_01", "000001_01"] {
        std::fs::rename(place.path(&format!("{name}.png")), place.path(&format!("named/{name}.png"))).unwrap();
    }
    let named = place.works("metric clip named --network clip --prompts two.txt --pair name --json").json();
    let (found, wanted) = (numbers(&named["values"]), numbers(&cycle["values"]));
    assert_eq!(found, [wanted[0], wanted[2], wanted[1], wanted[3]]);
    place.refuses("metric clip images --network clip --prompts two.txt --pair name", &["002.png", "prompt 2"]);
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let (place, _) = place("prompted-errors");
    place.write("three.txt", "a\nb\nc\n");
    place.write("empty.txt", " \n\n");
    place.write("bytes.txt", b"a\xff");
    let weights = std::fs::read(place.path("clip/model.safetensors")).unwrap();
    copy(&place.path("clip"), &place.path("cut"));
    place.write("cut/model.safetensors", &weights[..weights.len() / 2]);
    copy(&place.path("clip"), &place.path("bare"));
    std::fs::remove_file(place.path("bare/config.json")).unwrap();
    copy(&place.path("images"), &place.path("jpeg"));
    std::fs::write(place.path("jpeg/001.jpg"), b"\xff\xd8").unwrap();
    copy(&place.path("images"), &place.path("deep"));
    std::fs::write(place.path("deep/001.png"), deep_grey()).unwrap();
    copy(&place.path("images"), &place.path("torn"));
    let png = std::fs::read(place.path("images/001.png")).unwrap();
    std::fs::write(place.path("torn/001.png"), &png[..png.len() / 2]).unwrap();
    copy(&place.path("images"), &place.path("odd"));
    std::fs::rename(place.path("odd/003.png"), place.path("odd/004.png")).unwrap();
    let reward = std::fs::read(place.path("image_reward/ImageReward.pt")).unwrap();
    copy(&place.path("image_reward"), &place.path("short"));
    place.write("short/ImageReward.pt", &reward[..reward.len() - 100]);
    // Without a long prompt, whose warning would come first.
    place.write("four.txt", "a\nb\nc\nd\n");
    for (arguments, says) in [
        ("clip images --network clip --prompts three.txt", "4 images|3 prompts|hint:"),
        ("clip images --network clip --prompts empty.txt", "holds no prompt"),
        ("clip images --network clip --prompts bytes.txt", "bytes.txt"),
        ("clip images --network clip --prompts nowhere.txt", "nowhere.txt"),
        ("clip images --network cut --prompts p.txt", "model.safetensors"),
        ("clip images --network bare --prompts p.txt", "which activation|--activation"),
        ("clip images --network bare --prompts p.txt --activation gelu", "how many heads"),
        ("clip images --network nowhere --prompts p.txt", "nowhere"),
        ("clip images --network images/000.png --prompts p.txt", "a PNG image"),
        ("clip images --network image_reward --prompts p.txt", "no CLIP model by the names"),
        ("image-reward images --network clip --prompts p.txt", "no tokenizer|vocab.txt"),
        ("image-reward images --network clip --tokenizer image_reward --prompts p.txt", "no ImageReward by the names"),
        ("image-reward images --network short --prompts p.txt", "short/ImageReward.pt"),
        ("image-reward images --network image_reward --prompts p.txt --activation gelu", "--activation"),
        ("hps images --network open_clip --prompts p.txt", "no tokenizer|--tokenizer"),
        ("clip jpeg --network clip --prompts p.txt", "001.jpg|only"),
        ("clip deep --network clip --prompts four.txt", "001.png|16-bit grey"),
        ("clip torn --network clip --prompts four.txt", "001.png|truncated"),
        ("clip images odd --network clip --prompts p.txt", "is in one of the folders only"),
        ("clip images --network clip --prompts p.txt --preprocess bicubic", "bicubic|pil, tv, float"),
        ("clip images --network clip --prompts p.txt --pair oder", "did you mean 'order'"),
        ("clip images --network clip --prompts p.txt --batch 0", "batch"),
        ("clip images --network clip --prompts p.txt --num 9", "only 4 images"),
        ("clip images --network clip --prompts p.txt --column text", "no column 'text'"),
        ("clip images --network clip --prompts p.txt --csv p.txt", "p.txt"),
        ("clip images --network clip --prompts p.txt --csv images/000.png", "000.png"),
        ("clip images --network random:vit-x --prompts p.txt", "vit-x|vit-b-32"),
    ] {
        place.refuses(&format!("metric {arguments}"), &says.split('|').collect::<Vec<_>>());
    }
}

/// A PNG of one grey pixel of 16 bits.
fn deep_grey() -> Vec<u8> {
    let mut bytes = Image::new(1, 1, 1, vec![7]).unwrap().to_png();
    bytes[24] = 16;
    bytes
}

#[test]
fn scores_are_measures_and_a_loss() {
    let (place, _) = place("prompted-compare");
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../dyweight-models/tests/data/latent"), &place.path("sd"));
    place.write("two.txt", "a cat\nthe hat\n");
    let common = "--model sd --shape 4,4,4 --prompts two.txt --seeds 0-4 --teacher-nfe 6 --out c --json";
    let scores = "--clip clip --hps open_clip --score-tokenizer clip --image-reward image_reward";
    let found = place.works(&format!("compare --no-search --solvers euler,ipndm:2 --nfe 3,4 {common} {scores}")).json();
    for score in found["scores"].as_array().unwrap() {
        for name in ["clip", "hps", "image-reward"] {
            let mean = &score["prompted"][name];
            assert!(mean["value"].is_f64() && mean["error"].as_f64().unwrap() >= 0.0, "{score}");
        }
    }
    assert_eq!(found["scores"].as_array().unwrap().len(), 5, "four cells and the teacher");
    let report = std::fs::read_to_string(place.path("c/report.md")).unwrap();
    assert!(report.contains("CLIP score") && report.contains("ImageReward"), "{report}");
    assert!(place.path("c/clip.csv").is_file());

    // As `metric` finds them on the images that `sample` writes.
    place.works("sample --model sd --shape 4,4,4 --prompts two.txt --seeds 0-4 --solver euler --nfe 3 --outdir s");
    let alone = place.works("metric clip s --network clip --prompts two.txt --pair cycle --json").json();
    let euler =
        found["scores"].as_array().unwrap().iter().find(|s| s["row"] == "Euler (DDIM)" && s["nfe"] == 3).unwrap();
    let (a, b) = (alone["mean"].as_f64().unwrap(), euler["prompted"]["clip"]["value"].as_f64().unwrap());
    assert!((a - b).abs() < 1e-9, "{a} {b}");

    place.refuses("compare --model mixture --solvers euler --nfe 3 --clip clip --out d", &["--prompts"]);
    let train =
        "train --model sd --shape 4,4,4 --prompts two.txt --nfe 3 --iters 2 --batch 2 --validation 2 --teacher-nfe 6";
    place.works(&format!("{train} --loss clip --clip-model clip --out t.json"));
    place.refuses(&format!("{train} --loss clip --out u.json"), &["--clip-model"]);
    place.refuses(&format!("{train} --clip-model clip --out u.json"), &["--loss clip"]);
    place.works("bench --clip clip --batch 2 --repeats 1 --what gradient --json");
}
