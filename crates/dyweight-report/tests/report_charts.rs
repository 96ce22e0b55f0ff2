//! Charts: the same bytes every time, sound files whatever the data.

use dyweight_files::image::Image;
use dyweight_report::{
    Axis, BarChart, BarSeries, Canvas, Cloud, Field, Figure, HeatMap, LineChart, Paths, Plane, Rect, Series,
};

fn figure(values: &[f64]) -> Figure {
    let points: Vec<(f64, f64)> = values.iter().enumerate().map(|(i, v)| (i as f64, *v)).collect();
    let line = LineChart::new("a < b & c", Axis::linear("x"), Axis::log("y"))
        .with(Series::new("s", 0, points.clone()).errors(values.to_vec()))
        .with(Series { band: true, ..Series::new("t", 1, points.clone()).errors(values.to_vec()) });
    let bars = BarChart::new("", values.iter().map(|v| format!("g{}", v.is_finite())).collect(), Axis::linear(""))
        .with(BarSeries::new("s", 0, values.to_vec()).errors(values.to_vec()));
    let heat = HeatMap::new("h", vec![values.to_vec(), vec![]]);
    let mut plane = Plane::new("p");
    let field = Field::sample((0.0, 1.0), (0.0, 1.0), 9, |x, y| x * y);
    plane.field = Some((field, vec![0.3, f64::NAN]));
    plane.clouds.push(Cloud {
        name: "c".into(),
        points: points.clone(),
        colour: dyweight_report::category(0),
        radius: 1.0,
    });
    plane.paths.push(Paths::new("q", 1, vec![points]));
    Figure::new(2, (200.0, 160.0)).title("t").legend_below().with(line).with(bars).with(heat).with(plane)
}

#[test]
fn same_data_same_bytes() {
    let draw = || figure(&[0.1, 3.0, 0.7]).draw().unwrap();
    assert_eq!(draw().to_svg(), draw().to_svg());
    assert_eq!(draw().to_png(2.0).unwrap(), draw().to_png(2.0).unwrap());
}

#[test]
fn odd_data_still_gives_sound_files() {
    let odd: [&[f64]; 8] = [
        &[],
        &[0.0],
        &[f64::NAN, f64::NAN],
        &[1.0, f64::NAN, 2.0],
        &[f64::INFINITY, -1.0],
        &[-3.0, 1e-300, 1e300],
        &[f64::MIN_POSITIVE, f64::MAX],
        &[5.0, 5.0, 5.0],
    ];
    for values in odd {
        let canvas = figure(values).draw().unwrap();
        let image = Image::from_png(&canvas.to_png(1.0).unwrap()).unwrap();
        assert_eq!((image.width(), image.height()), (400, canvas.area().h as usize));
        let svg = canvas.to_svg();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{values:?}");
        assert_eq!(svg.matches("<g ").count(), svg.matches("</g>").count());
        assert!(!svg.contains("a < b"));
    }
}

#[test]
fn figures_that_are_too_large_are_refused() {
    for side in [0.0, 1e9, f64::NAN] {
        assert!(Figure::single(HeatMap::new("", vec![vec![1.0]]), side, 10.0).draw().is_err());
    }
}

#[test]
fn pictures_land_where_they_should() {
    let red = Image::new(1, 1, 3, vec![255, 0, 0]).unwrap();
    let mut canvas = Canvas::new(10.0, 10.0);
    canvas.picture(&red, Rect::new(2.0, 3.0, 4.0, 5.0));
    let drawn = Image::from_png(&canvas.to_png(1.0).unwrap()).unwrap();
    let at = |x: usize, y: usize| &drawn.data()[3 * (y * 10 + x)..][..3];
    assert_eq!([at(3, 4), at(5, 7), at(1, 4), at(3, 9)], [[255, 0, 0], [255, 0, 0], [255; 3], [255; 3]]);
    assert!(canvas.to_svg().contains("data:image/png;base64,"));
}
