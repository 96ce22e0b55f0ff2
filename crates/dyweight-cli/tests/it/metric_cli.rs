//! `dyweight metric`: what is refused how, and that numbers do not depend on the way images come.

use crate::common::{Place, bytes};
use dyweight::files::image::Image;
use dyweight::files::{ArrayFile, StoredTensor};
use serde_json::Value;

/// `count` grey images that differ, named as the sampler names them.
fn images(place: &Place, folder: &str, count: usize, size: usize, salt: usize) {
    for i in 0..count {
        let data = (0..size * size).map(|p| ((p * (i + 3) + i * i * 7 + salt) % 251) as u8).collect();
        let path = place.path(folder).join(format!("000000/{i:06}.png"));
        Image::new(size, size, 1, data).unwrap().write(&path).unwrap();
    }
}

/// An archive of f64 arrays.
fn npz(place: &Place, name: &str, arrays: &[(&str, &[usize], Vec<f64>)]) {
    let mut file = ArrayFile::default();
    for (name, shape, values) in arrays {
        file.arrays.insert(name.to_string(), StoredTensor::from_f64(shape, values).unwrap());
    }
    file.write(&place.path(name)).unwrap();
}

fn identity(dims: usize) -> Vec<f64> {
    (0..dims * dims).map(|i| if i / dims == i % dims { 1.0 } else { 0.0 }).collect()
}

#[test]
fn bad_images_and_names_are_refused() {
    let place = Place::new("metric-images");
    std::fs::create_dir_all(place.path("empty/inner")).unwrap();
    images(&place, "good", 3, 28, 0);
    images(&place, "mixed", 3, 28, 0);
    Image::new(8, 8, 1, vec![0; 64]).unwrap().write(&place.path("mixed/000000/000002.png")).unwrap();
    images(&place, "broken", 3, 28, 0);
    std::fs::write(place.path("broken/000000/000001.png"), b"\x89PNG\r\n\x1a\nno more").unwrap();
    images(&place, "large", 3, 32, 0);
    place.write("text.npz", "not an archive");
    for (arguments, says) in [
        ("metric fid nowhere fashion", "nowhere|hint:"),
        ("metric fid empty fashion", "no PNG files in empty|hint: give a folder"),
        ("metric fid mixed fashion", "000002.png|[1, 28, 28]|[1, 8, 8]"),
        ("metric fid broken fashion", "000001.png|cannot decode"),
        ("metric fid large fashion", "1x28x28|1x32x32|hint:"),
        ("metric fid text.npz fashion", "text.npz is a file|hint:"),
        ("metric fid good text.npz", "text.npz"),
        ("metric fid good fashoin", "reference 'fashoin'|did you mean 'fashion'"),
        ("metric fid good fashion --num 4", "--num 4|only 3 images"),
        ("metric fid good fashion --num 0", "--num 0|at least one"),
        ("metric fid good fashion --num 1", "--num 1|two samples"),
        ("metric fid good fashion --batch 0", "--batch 0"),
        ("metric fid good fashion --model fashion", "sampler|hint:"),
        ("metric fid good fashion --features vgg", "feature network 'vgg'|hint:"),
        ("metric fid good fashion --out no/such/place.json", "place.json|hint:"),
        ("metric fid sampler fashion", "which model|hint: give --model"),
        ("metric fid sampler fashion --model fashion", "how many steps|hint: give --nfe"),
        ("metric fid sampler fashion --model fashion --nfe 2 --seeds 0-3 --num 5", "--num 5|only 4"),
        ("metric stats empty --out a.npz", "no PNG files"),
        ("metric stats broken --out a.npz", "000001.png"),
        ("metric kid good nowhere", "nowhere"),
        ("metric kid good large", "1x32x32"),
        ("metric kid good good --num 2", "--num 2|three images"),
        ("metric pr good good", "--num 3|neighbours"),
        ("metric teacher good large", "1, 28, 28]|1, 32, 32]"),
        ("metric teacher good empty", "no PNG files in empty"),
        ("metric teacher good nowhere", "nowhere"),
        ("metric bench --dims 1", "--dims 1"),
    ] {
        place.refuses(arguments, &says.split('|').collect::<Vec<_>>());
    }
    std::fs::remove_file(place.path("mixed/000000/000002.png")).unwrap();
    place.refuses("metric teacher good mixed", &["000002.png", "one of the folders only", "hint:"]);
}

#[test]
fn bad_statistics_are_refused() {
    let place = Place::new("metric-statistics");
    images(&place, "good", 3, 28, 0);
    let with = |at: usize, value: f64| {
        let mut sigma = identity(128);
        sigma[at] = value;
        sigma
    };
    let mean = vec![0.0; 128];
    npz(&place, "no-sigma.npz", &[("mu", &[128], mean.clone())]);
    npz(&place, "shapes.npz", &[("mu", &[128], mean.clone()), ("sigma", &[64, 256], vec![0.0; 128 * 128])]);
    npz(&place, "nan.npz", &[("mu", &[128], mean.clone()), ("sigma", &[128, 128], with(5, f64::NAN))]);
    npz(&place, "bad-mean.npz", &[("mu", &[128], vec![f64::INFINITY; 128]), ("sigma", &[128, 128], identity(128))]);
    npz(&place, "odd.npz", &[("mu", &[128], mean.clone()), ("sigma", &[128, 128], with(5, 0.5))]);
    npz(&place, "negative.npz", &[("mu", &[128], mean.clone()), ("sigma", &[128, 128], with(0, -1.0))]);
    npz(&place, "other.npz", &[("mu", &[4], vec![0.0; 4]), ("sigma", &[4, 4], identity(4))]);
    npz(&place, "sound.npz", &[("mu", &[128], mean), ("sigma", &[128, 128], identity(128))]);
    for (file, says) in [
        ("no-sigma.npz", "'sigma' is missing"),
        ("shapes.npz", "'sigma'|[128, 128]|[64, 256]"),
        ("nan.npz", "'sigma'|NaN|index 5"),
        ("bad-mean.npz", "'mu'|inf"),
        ("odd.npz", "not symmetric|(0, 5)|hint:"),
        ("negative.npz", "eigenvalue -1e0"),
        ("other.npz", "[128]|[4]"),
    ] {
        place.refuses(&format!("metric fid good {file}"), &says.split('|').collect::<Vec<_>>());
        place.refuses(&format!("metric fid {file} sound.npz"), &says.split('|').collect::<Vec<_>>());
    }
    let ended = place.works("metric fid sound.npz sound.npz --json");
    assert_eq!(ended.json()["frechet"]["value"], 0.0);
    assert_eq!(ended.json()["frechet"]["error"], Value::Null);
    assert!(ended.stderr.contains("does not say how many") && ended.stderr.contains("which features"), "{ended:?}");
}

#[test]
fn a_folder_and_the_sampler_give_the_same_bits() {
    let place = Place::new("metric-sampler");
    // What is built in is meant by its name, whatever lies around.
    std::fs::create_dir(place.path("fashion")).unwrap();
    let draw = "--model fashion --solver euler --nfe 2 --seeds 3-14";
    place.works(&format!("sample {draw} --outdir made --grid"));
    let folder = place.works("metric fid made fashion --json --batch 5 --threads 1").json();
    let direct = place.works(&format!("metric fid sampler fashion {draw} --json --out direct.json")).json();
    assert_eq!(folder["frechet"], direct["frechet"]);
    assert_eq!(folder["frechet"]["count"], 12);
    assert!(folder["frechet"]["error"].as_f64().unwrap() > 0.0);
    assert_eq!(folder["provenance"]["samples"]["features"], "fashion-features");
    assert_eq!(folder["provenance"]["reference"]["count"], 60_000);
    assert_eq!(folder["provenance"]["reference_sha256"], direct["provenance"]["reference_sha256"]);
    assert!(folder["warnings"][0].as_str().unwrap().contains("singular"), "{folder}");
    let written: Value = serde_json::from_slice(&bytes(&place.path("direct.json"))).unwrap();
    assert_eq!(written, direct);
    let some = place.works(&format!("metric fid sampler fashion {draw} --json --num 5")).json();
    assert_eq!(some, {
        let mut five = place.works("metric fid made fashion --json --num 5").json();
        five["provenance"]["samples"]["images"] = some["provenance"]["samples"]["images"].clone();
        five
    });
}

/// The second feature network sees the same images its own way, and the built-in reference is of the network that is
/// asked for.
#[test]
fn two_networks_judge_the_same_images() {
    let place = Place::new("metric-judge");
    let judged = "metric fid sampler fashion --model fashion --solver euler --nfe 2 --seeds 3-14 --json";
    let own = place.works(judged).json();
    let judge = place.works(&format!("{judged} --features fashion-judge")).json();
    assert_eq!(judge["provenance"]["samples"]["features"], "fashion-judge");
    for key in ["features", "weights"] {
        let (samples, reference) = (&judge["provenance"]["samples"][key], &judge["provenance"]["reference"][key]);
        assert!(samples == reference && *samples != own["provenance"]["samples"][key], "{key}: {judge}");
    }
    assert_eq!(judge["provenance"]["reference"]["count"], 60_000);
    assert_ne!(judge["frechet"]["value"], own["frechet"]["value"]);
    images(&place, "a", 8, 28, 0);
    place.works("metric stats a --features fashion-judge --out judge.npz");
    place.refuses("metric fid a judge.npz", &["fashion-judge", "fashion-features"]);
    place.refuses("metric fid a fashion --features fashion-juge", &["did you mean 'fashion-judge'"]);
}

#[test]
fn statistics_are_a_reference_for_others() {
    let place = Place::new("metric-stats");
    images(&place, "a", 20, 28, 0);
    images(&place, "b", 20, 28, 60);
    let made = place.works("metric stats a --out a.npz --name mine --json").json();
    assert_eq!((&made["count"], &made["dims"]), (&Value::from(20), &Value::from(128)));
    let own = place.works("metric fid a a.npz --json").json();
    assert!(own["frechet"]["value"].as_f64().unwrap() < 1e-6, "{own}");
    assert_eq!(own["provenance"]["reference"]["images"], "mine");
    let by_file = place.works("metric fid b a.npz --json").json();
    assert!(by_file["frechet"]["value"].as_f64().unwrap() > 0.01);
    let by_folder = place.works("metric fid b a --json").json();
    assert_eq!(by_file["frechet"], by_folder["frechet"]);
    place.works("metric stats b --out b.npz");
    let files = place.works("metric fid b.npz a.npz --json").json();
    assert_eq!(files["frechet"]["value"], by_file["frechet"]["value"]);
    let plain = place.works("metric fid b a.npz");
    assert!(plain.stdout.starts_with("frechet: ") && plain.stdout.contains('±'), "{plain:?}");
    assert!(plain.stderr.contains("20 images, features fashion-features, reference mine of 20"), "{plain:?}");
}

#[test]
fn kernel_distance_precision_recall_and_teacher() {
    let place = Place::new("metric-others");
    images(&place, "a", 12, 28, 0);
    images(&place, "b", 12, 28, 60);
    let one = place.works("metric kid a b --json --threads 1").json();
    let two = place.works("metric kid a b --json --threads 2 --batch 5").json();
    assert_eq!(one, two);
    assert!(one["kid"]["error"].as_f64().unwrap() > 0.0);
    let same = place.works("metric pr a a --json").json();
    assert_eq!((&same["precision"]["value"], &same["recall"]["value"]), (&Value::from(1.0), &Value::from(1.0)));
    // Images first and what they are compared with second, as everywhere; pictures that are passed over are counted.
    place.write("a/photo.jpg", "no picture");
    let ended = place.works("metric pr a b --json");
    assert!(ended.stderr.contains("1 picture is passed over in a"), "{ended:?}");
    let named = &ended.json()["provenance"];
    assert_eq!((&named["samples"]["images"], &named["reference"]["images"]), (&Value::from("a"), &Value::from("b")));
    std::fs::remove_file(place.path("a/photo.jpg")).unwrap();
    let uneven = place.works("metric teacher a b --num 5 --json --out t.json").json();
    assert_eq!(uneven["count"], 5);
    assert!(uneven["rmse"]["value"].as_f64().unwrap() > 0.1);
    assert!(place.path("t.json").is_file());
    assert_eq!(place.works("metric teacher a a --json").json()["rmse"]["value"], 0.0);
    place.tensors("x.safetensors", &[("samples", &[2, 2, 1, 1], &[0.0, 0.0, 1.0, 1.0])]);
    place.tensors("y.safetensors", &[("samples", &[2, 2, 1, 1], &[0.3, 0.3, 1.3, 1.3])]);
    let files = place.works("metric teacher x.safetensors y.safetensors").stdout;
    assert!(files.starts_with("rmse: 0.3000"), "{files}");
}
